#include "markup.hpp"

#include <cctype>
#include <set>
#include <string_view>
#include <vector>

namespace vkattn::test {
namespace {

class Scanner {
  public:
    Scanner(const std::string &document, bool html) : document_(document), html_(html) {}

    Markup read() {
        for (const char c : document_) {
            const auto byte = static_cast<unsigned char>(c);
            if (byte < 0x20 && c != '\n' && c != '\t') return fail("a control character");
        }
        while (at_ < document_.size() && markup_.problem.empty()) {
            if (document_[at_] == '<')
                readTag();
            else
                readText();
        }
        if (markup_.problem.empty() && !open_.empty()) fail(open_.back() + " is not closed");
        return markup_;
    }

  private:
    Markup fail(const std::string &what) {
        if (markup_.problem.empty()) markup_.problem = what + " at " + std::to_string(at_) + ": " + document_.substr(at_, 80);
        return markup_;
    }

    [[nodiscard]] bool take(std::string_view text) {
        if (document_.compare(at_, text.size(), text) != 0) return false;
        at_ += text.size();
        return true;
    }

    std::string readName() {
        const size_t begin = at_;
        while (at_ < document_.size() && (std::isalnum(static_cast<unsigned char>(document_[at_])) != 0 || document_[at_] == '-')) at_++;
        return document_.substr(begin, at_ - begin);
    }

    std::string resolve() {
        static constexpr struct {
            const char *entity, *text;
        } known[] = {{"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&nbsp;", " "}};
        for (const auto &each : known)
            if (take(each.entity)) return each.text;
        fail("a bare &");
        return "";
    }

    void readText() {
        while (markup_.problem.empty() && at_ < document_.size() && document_[at_] != '<') {
            if (document_[at_] == '>') fail("a bare >");
            markup_.text += document_[at_] == '&' ? resolve() : std::string(1, document_[at_++]);
        }
    }

    void readTag() {
        if (html_ ? take("<!DOCTYPE html>") : take("<?xml version=\"1.0\" encoding=\"UTF-8\"?>")) return;
        if (take("</")) {
            const std::string name = readName();
            if (open_.empty() || open_.back() != name) return void(fail("</" + name + "> closes nothing"));
            open_.pop_back();
            if (!take(">")) fail("a closing tag without its end");
            return;
        }
        at_++;
        const std::string name = readName();
        if (name.empty()) return void(fail("a bare <"));
        markup_.elements++;
        readAttributes();
        const bool empty = take("/");
        if (!take(">")) return void(fail("a tag without its end"));
        static const std::set<std::string> voids = {"meta", "br"};
        if (empty || (html_ && voids.count(name) != 0)) return;
        if (html_ && name == "style") {
            at_ = document_.find("</style>", at_);
            if (at_ == std::string::npos) at_ = document_.size();
        }
        open_.push_back(name);
    }

    void readAttributes() {
        std::set<std::string> names;
        while (take(" ")) {
            const std::string name = readName();
            if (name.empty() || !names.insert(name).second) return void(fail("attribute '" + name + "'"));
            if (!take("=\"")) return void(fail("an attribute without quotes"));
            while (markup_.problem.empty() && at_ < document_.size() && document_[at_] != '"') {
                if (document_[at_] == '<') return void(fail("< in an attribute"));
                document_[at_] == '&' ? void(resolve()) : void(at_++);
            }
            if (!take("\"")) return void(fail("an attribute without an end"));
        }
    }

    const std::string &document_;
    bool html_;
    size_t at_ = 0;
    std::vector<std::string> open_;
    Markup markup_;
};

} // namespace

Markup readMarkup(const std::string &document, bool html) {
    return Scanner(document, html).read();
}

} // namespace vkattn::test
