// Pages of a pool that nobody has.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace serve {

class FreePages {
  public:
    explicit FreePages(uint32_t pages) : total_(pages) {
        for (uint32_t page = pages; page-- > 0;) free_.push_back(static_cast<int32_t>(page));
        held_.assign(pages, false);
    }
    [[nodiscard]] uint32_t total() const { return total_; }
    [[nodiscard]] uint32_t free() const { return static_cast<uint32_t>(free_.size()); }
    [[nodiscard]] uint32_t held() const { return total_ - free(); }

    // There is one.
    [[nodiscard]] int32_t take() {
        const int32_t page = free_.back();
        free_.pop_back();
        held_[static_cast<size_t>(page)] = true;
        return page;
    }
    // Throws logic_error where a page is given back that nobody has: it would be two requests' afterwards.
    void giveBack(std::vector<int32_t> &pages) {
        for (const int32_t page : pages) {
            if (!held_.at(static_cast<size_t>(page))) throw std::logic_error("page " + std::to_string(page) + " is given back twice");
            held_[static_cast<size_t>(page)] = false;
            free_.push_back(page);
        }
        pages.clear();
    }

  private:
    uint32_t total_;
    std::vector<int32_t> free_;
    std::vector<bool> held_;
};

} // namespace serve
