// Reports as JSON, and back. One description of each struct's members serves the writer and the
// reader.
#include "conform/report/report.hpp"

#include "program/failure.hpp"
#include "program/json_text.hpp"
#include "program/legible_text.hpp"

#include <concepts>
#include <limits>
#include <set>

namespace vkattn::conform {
using namespace program;
namespace {

// Objects are maps: a hostile object with many members is read quickly.
using Parsed = nlohmann::json;

constexpr size_t maxTextBytes = 64u << 20; // a check takes some 300 bytes
constexpr size_t maxDepth = 8;             // a report needs 6
constexpr size_t maxMembers = 64;          // members of an object
constexpr size_t maxDevices = 64;
// The most kernels, features or types on one device: they are rows and columns of tables.
constexpr size_t maxNames = 256;

template <class T, class Described>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Described>;

// Members. `must` has to be there. `may` is left out where it has the value of an empty struct, or
// the given value.
template <class Io, MaybeConst<Errors> T> void describe(Io &io, T &errors) {
    io.must("ratio", errors.worstRatio);
    io.must("error", errors.worstError);
    io.must("bound", errors.worstBound);
    io.may("relativeToV", errors.relativeToV);
    io.must("histogram", errors.histogram);
}

template <class Io, MaybeConst<Smallest> T> void describe(Io &io, T &smallest) {
    io.must("replay", smallest.replay);
    io.may("reason", smallest.reason);
    io.may("attempts", smallest.attempts);
}

template <class Io, MaybeConst<CheckResult> T> void describe(Io &io, T &check) {
    io.must("id", check.id);
    io.must("kind", check.kind);
    io.must("kernel", check.kernel);
    io.must("verdict", check.finding.outcome);
    io.may("reason", check.finding.reason);
    io.may("tiles", check.testLayout, std::string("device"));
    io.may("room", check.limits, std::string("full"));
    io.may("dtype", check.dtype);
    io.may("features", check.features);
    io.may("replay", check.replay);
    io.may("seconds", check.seconds);
    io.may("deviceMilliseconds", check.finding.deviceMilliseconds);
    io.may("errors", check.finding.errors);
    io.may("smallest", check.smallest);
}

template <class Io, MaybeConst<Timing> T> void describe(Io &io, T &timing) {
    io.must("kernel", timing.kernel);
    io.must("shape", timing.shape);
    io.may("milliseconds", timing.milliseconds);
    io.may("repeats", timing.repeats);
    io.may("deviceTimestamps", timing.deviceTimestamps);
    io.may("unsupported", timing.unsupported);
}

template <class Io, MaybeConst<DeviceFacts::Kernel> T> void describe(Io &io, T &kernel) {
    io.must("name", kernel.name);
    io.must("available", kernel.available);
    io.may("reason", kernel.reason);
}

template <class Io, MaybeConst<DeviceFacts> T> void describe(Io &io, T &facts) {
    io.must("name", facts.name);
    io.must("driver", facts.driver);
    io.must("type", facts.type);
    io.may("vendorId", facts.vendorId);
    io.may("deviceId", facts.deviceId);
    io.may("apiVersion", facts.apiVersion);
    io.may("driverVersion", facts.driverVersion);
    io.may("subgroupSize", facts.subgroupSize);
    io.may("deviceLocalBytes", facts.deviceLocalBytes);
    io.may("maxAllocationBytes", facts.maxAllocationBytes);
    io.may("maxStorageBufferRange", facts.maxStorageBufferRange);
    io.may("maxSharedMemoryBytes", facts.maxSharedMemoryBytes);
    io.may("maxWorkgroupInvocations", facts.maxWorkgroupInvocations);
    io.may("nanGuaranteed", facts.nanGuaranteed);
    io.may("matrixShapes", facts.matrixShapes);
    io.may("kernels", facts.kernels);
}

template <class Io, MaybeConst<DeviceReport> T> void describe(Io &io, T &device) {
    io.must("facts", device.facts);
    io.may("problem", device.problem);
    io.may("seconds", device.seconds);
    io.may("pipelines", device.pipelines);
    io.may("compileSeconds", device.compileSeconds);
    io.may("restarts", device.restarts);
    io.may("timings", device.timings);
    io.must("checks", device.checks);
}

template <class Io, MaybeConst<Report> T> void describe(Io &io, T &report) {
    io.must("library", report.library);
    io.may("shaderHash", report.shaderHash);
    io.may("started", report.started);
    io.may("machine", report.machine);
    io.may("extent", report.extent);
    io.must("seed", report.seed);
    io.may("arguments", report.arguments);
    io.may("problem", report.problem);
    io.must("devices", report.devices);
}

template <class T>
concept Struct = std::is_class_v<T>;

template <Struct T> Json toJson(const T &described);

Json toJson(const std::string &text) {
    return text;
}
Json toJson(bool value) {
    return value;
}
Json toJson(double value) {
    return jsonNumber(value);
}
Json toJson(Outcome outcome) {
    return outcomeName(outcome);
}
template <std::unsigned_integral T> Json toJson(T value) {
    return value;
}
template <class T> Json toJson(const std::optional<T> &value) {
    return toJson(*value);
}
Json toJson(const uint64_t (&counts)[VKATTN_VERIFY_BINS]) {
    return counts;
}
template <class T> Json toJson(const std::vector<T> &values) {
    Json array = Json::array();
    for (const T &value : values) array.push_back(toJson(value));
    return array;
}

class Writer {
  public:
    template <class T> void must(const char *name, const T &value) { json_[name] = toJson(value); }
    template <class T> void may(const char *name, const T &value, const T &otherwise = {}) {
        if (value != otherwise) must(name, value);
    }
    [[nodiscard]] Json take() { return std::move(json_); }

  private:
    Json json_ = Json::object();
};

template <Struct T> Json toJson(const T &described) {
    Writer writer;
    describe(writer, described);
    return writer.take();
}

// A fault, before the source and the advice are known.
struct Refusal {
    std::string what;
};

[[noreturn]] void refuse(const std::string &path, const Parsed &found, const std::string &expected) {
    throw Refusal{path + " is " + legibleLine(found.dump(-1, ' ', false, Parsed::error_handler_t::replace), 60) + ", expected " + expected};
}

template <Struct T> void read(const Parsed &json, const std::string &path, T &described);

void read(const Parsed &json, const std::string &path, std::string &text) {
    if (!json.is_string()) refuse(path, json, "a string");
    text = json.get_ref<const std::string &>();
}

void read(const Parsed &json, const std::string &path, bool &value) {
    if (!json.is_boolean()) refuse(path, json, "true or false");
    value = json.get<bool>();
}

template <std::unsigned_integral T> void read(const Parsed &json, const std::string &path, T &value) {
    constexpr T most = std::numeric_limits<T>::max();
    if (!json.is_number_unsigned() || json.get<uint64_t>() > most) refuse(path, json, "a whole number from 0 to " + std::to_string(most));
    value = json.get<T>();
}

void read(const Parsed &json, const std::string &path, double &value) {
    if (json.is_number())
        value = json.get<double>();
    else if (json == "Infinity")
        value = std::numeric_limits<double>::infinity();
    else if (json == "NaN")
        value = std::numeric_limits<double>::quiet_NaN();
    else
        value = -1;
    if (value < 0) refuse(path, json, "a number of 0 or more, \"Infinity\" or \"NaN\"");
}

void read(const Parsed &json, const std::string &path, Outcome &outcome) {
    const std::optional<Outcome> found = json.is_string() ? outcomeOf(json.get_ref<const std::string &>()) : std::nullopt;
    if (!found) {
        std::string expected;
        for (const Outcome each : outcomes) expected += (expected.empty() ? "\"" : ", \"") + std::string(outcomeName(each)) + "\"";
        refuse(path, json, "one of " + expected);
    }
    outcome = *found;
}

template <class T> void read(const Parsed &json, const std::string &path, std::optional<T> &value) {
    read(json, path, value.emplace());
}

void read(const Parsed &json, const std::string &path, uint64_t (&counts)[VKATTN_VERIFY_BINS]) {
    if (!json.is_array() || json.size() != VKATTN_VERIFY_BINS)
        throw Refusal{path + " has " + (json.is_array() ? std::to_string(json.size()) : "no") + " elements, expected an array of " +
                      std::to_string(VKATTN_VERIFY_BINS) + " counts"};
    for (size_t n = 0; n < VKATTN_VERIFY_BINS; n++) read(json[n], path + "[" + std::to_string(n) + "]", counts[n]);
}

template <class T> void read(const Parsed &json, const std::string &path, std::vector<T> &values) {
    if (!json.is_array()) refuse(path, json, "an array");
    values.clear();
    for (size_t n = 0; n < json.size(); n++) read(json[n], path + "[" + std::to_string(n) + "]", values.emplace_back());
}

class Reader {
  public:
    Reader(const Parsed &json, const std::string &path) : json_(json), path_(path) {
        if (!json.is_object()) refuse(path.empty() ? "the text" : path, json, "an object");
    }
    template <class T> void must(const char *name, T &value) {
        const auto found = json_.find(name);
        if (found == json_.end()) throw Refusal{pathOf(name) + " is missing"};
        read(*found, pathOf(name), value);
    }
    template <class T> void may(const char *name, T &value, const T &otherwise = {}) {
        if (json_.contains(name))
            must(name, value);
        else
            value = otherwise;
    }

  private:
    [[nodiscard]] std::string pathOf(const char *name) const { return (path_.empty() ? "" : path_ + ".") + name; }

    const Parsed &json_;
    const std::string &path_;
};

template <Struct T> void read(const Parsed &json, const std::string &path, T &described) {
    Reader reader(json, path);
    describe(reader, described);
}

// Checks the structure alone, for what the parser lets through and a report never has.
class Structure {
  public:
    bool operator()(Parsed::parse_event_t event, const Parsed &parsed) {
        using Event = Parsed::parse_event_t;
        if (event == Event::object_start || event == Event::array_start) {
            if (members_.size() == maxDepth)
                throw Refusal{"it is nested more than " + std::to_string(maxDepth) + " deep, expected a report"};
            members_.emplace_back();
        } else if (event == Event::object_end || event == Event::array_end) {
            members_.pop_back();
        } else if (event == Event::key) {
            const auto &name = parsed.get_ref<const std::string &>();
            if (!members_.back().insert(name).second) throw Refusal{"an object has the member \"" + legibleLine(name, 60) + "\" twice"};
            if (members_.back().size() > maxMembers) throw Refusal{"an object has more than " + std::to_string(maxMembers) + " members"};
        }
        return true;
    }

  private:
    std::vector<std::set<std::string>> members_; // names in the objects that are open
};

Parsed parse(const std::string &text) {
    if (text.size() > maxTextBytes) throw Refusal{"it has more than " + std::to_string(maxTextBytes >> 20) + " MiB"};
    Structure structure;
    try {
        return Parsed::parse(text, [&](int, Parsed::parse_event_t event, const Parsed &parsed) { return structure(event, parsed); });
    } catch (const Parsed::exception &failure) {
        const std::string what = failure.what();
        throw Refusal{"it is no JSON: " + legibleLine(what.substr(what.find("] ") + 2), 200)};
    }
}

void checkSchema(const Parsed &json) {
    if (!json.is_object()) refuse("the text", json, "an object");
    if (!json.contains("schema")) throw Refusal{"schema is missing, expected \"" + std::string(conformSchema) + "\""};
    if (json["schema"] != conformSchema) refuse("schema", json["schema"], "\"" + std::string(conformSchema) + "\"");
    if (!json.contains("version")) throw Refusal{"version is missing, expected " + std::to_string(conformSchemaVersion)};
    if (json["version"] != conformSchemaVersion)
        refuse("version", json["version"], std::to_string(conformSchemaVersion) + ", which this vkattn reads");
}

template <class Key> class Distinct {
  public:
    void add(const Key &key, const std::string &path, const std::string &shown) {
        if (!keys_.insert(key).second) throw Refusal{path + " is \"" + legibleLine(shown, 60) + "\", which an earlier one has"};
    }

  private:
    std::set<Key> keys_;
};

std::string indexed(const std::string &path, const char *member, size_t n) {
    return path + "." + member + "[" + std::to_string(n) + "]";
}

// Things that are looked up by name have a name of their own.
void checkDistinct(const std::string &path, const DeviceReport &device) {
    Distinct<std::string_view> kernels, checks;
    Distinct<std::pair<std::string_view, std::string_view>> timings;
    for (size_t n = 0; n < device.facts.kernels.size(); n++) {
        const std::string &name = device.facts.kernels[n].name;
        kernels.add(name, indexed(path, "facts.kernels", n) + ".name", name);
    }
    for (size_t n = 0; n < device.checks.size(); n++)
        checks.add(device.checks[n].id, indexed(path, "checks", n) + ".id", device.checks[n].id);
    for (size_t n = 0; n < device.timings.size(); n++) {
        const Timing &timing = device.timings[n];
        timings.add({timing.kernel, timing.shape}, indexed(path, "timings", n), timing.kernel + ", " + timing.shape);
    }
}

void checkTableSizes(const std::string &path, const DeviceReport &device) {
    std::set<std::string_view> kernels, features, dtypes;
    const auto limit = [&](const std::set<std::string_view> &names, const char *what) {
        if (names.size() > maxNames) throw Refusal{path + " has more than " + std::to_string(maxNames) + " different " + what};
    };
    for (const DeviceFacts::Kernel &kernel : device.facts.kernels) kernels.insert(kernel.name);
    for (const Timing &timing : device.timings) kernels.insert(timing.kernel);
    for (const CheckResult &check : device.checks) {
        kernels.insert(check.kernel);
        dtypes.insert(check.dtype);
        features.insert(check.features.begin(), check.features.end());
    }
    limit(kernels, "kernels");
    limit(dtypes, "types");
    limit(features, "features");
}

// Objects of the outer levels have a line for each member. Objects further in have one line: a
// check, a timing, a kernel.
void layOut(const Json &json, size_t level, std::string &out) {
    constexpr size_t linesTo = 4;
    if (level == linesTo || !json.is_structured() || json.empty()) {
        out += jsonText(json, -1);
        return;
    }
    const std::string indent(level + 1, ' ');
    const char *before = json.is_object() ? "{\n" : "[\n";
    for (const auto &[name, value] : json.items()) {
        out += before + indent + (json.is_object() ? jsonText(name, -1) + ": " : "");
        layOut(value, level + 1, out);
        before = ",\n";
    }
    out += "\n" + std::string(level, ' ') + (json.is_object() ? "}" : "]");
}

template <class T> std::string toLine(const T &value) {
    return jsonText(toJson(value), -1);
}

template <class T> bool fromLine(const std::string &line, T &value) {
    try {
        T found;
        read(parse(line), "", found);
        value = std::move(found);
        return true;
    } catch (const Refusal &) {
        return false;
    }
}

} // namespace

std::string reportToJson(const Report &report) {
    Json json = {{"schema", conformSchema}, {"version", conformSchemaVersion}};
    json.update(toJson(report));
    std::string out;
    layOut(json, 0, out);
    return out + "\n";
}

Report reportFromJson(const std::string &text, const std::string &nameOfSource) {
    try {
        const Parsed json = parse(text);
        checkSchema(json);
        Report report;
        read(json, "", report);
        if (report.devices.size() > maxDevices) throw Refusal{"devices has more than " + std::to_string(maxDevices) + " elements"};
        for (size_t n = 0; n < report.devices.size(); n++) {
            const std::string path = "devices[" + std::to_string(n) + "]";
            checkDistinct(path, report.devices[n]);
            checkTableSizes(path, report.devices[n]);
        }
        return report;
    } catch (const Refusal &refusal) {
        throw Failure(legibleLine(nameOfSource) + " is no report that this vkattn can read: " + refusal.what +
                      ": name a file that `vkattn conform --json FILE` of this version has written");
    }
}

std::string checkToLine(const CheckResult &check) {
    return toLine(check);
}
bool checkFromLine(const std::string &line, CheckResult &check) {
    return fromLine(line, check);
}
std::string factsToLine(const DeviceFacts &facts) {
    return toLine(facts);
}
bool factsFromLine(const std::string &line, DeviceFacts &facts) {
    return fromLine(line, facts);
}
std::string timingToLine(const Timing &timing) {
    return toLine(timing);
}
bool timingFromLine(const std::string &line, Timing &timing) {
    return fromLine(line, timing);
}

} // namespace vkattn::conform
