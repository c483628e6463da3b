#include "program/options/option_values.hpp"

#include "program/failure.hpp"

#include <CLI/CLI.hpp>
#include <vkattn/vkattn.hpp>

namespace vkattn::program {

std::vector<std::string> partsOfList(const std::string &text) {
    std::vector<std::string> parts;
    for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
        end = text.find(',', begin);
        parts.push_back(text.substr(begin, end - begin));
    }
    return parts;
}

bool parseList(const std::string &text, std::vector<uint32_t> &values) {
    values.clear();
    for (const std::string &part : partsOfList(text))
        if (!parseInteger(part, values.emplace_back())) return false;
    return true;
}

size_t parseWord(const std::string &option, const std::string &text, std::span<const char *const> words) {
    std::string expected;
    for (size_t i = 0; i < words.size(); i++) {
        if (text == words[i]) return i;
        expected += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + std::string(words[i]);
    }
    badValue(option, expected, text);
}

vkattn_dtype parseCacheType(const std::string &option, const std::string &text) {
    return static_cast<vkattn_dtype>(VKATTN_FP8_E4M3 + parseWord(option, text, std::span(dtypeNames).subspan(VKATTN_FP8_E4M3)));
}

vkattn_kernel parseKernel(const std::string &option, const std::string &text) {
    std::vector<vkattn_kernel> kernels = {VKATTN_KERNEL_AUTO};
    for (const vkattn_kernel kernel : KernelList()) kernels.push_back(kernel);
    std::vector<const char *> names;
    for (const vkattn_kernel kernel : kernels) names.push_back(vkattnKernelName(kernel));
    return kernels[parseWord(option, text, names)];
}

std::string kernelList(const char *first) {
    std::string list = first;
    for (const vkattn_kernel kernel : KernelList()) list += std::string(", ") + vkattnKernelName(kernel);
    return list;
}

void badValue(const std::string &option, const std::string &expected, const std::string &value) {
    throw Failure(option + " takes " + expected + ", not '" + value + "'");
}

uint32_t parseWhole(const std::string &option, const std::string &text, uint32_t most) {
    uint32_t value = 0;
    if (!parseInteger(text, value) || value == 0 || value > most)
        badValue(option, "a whole number from 1 to " + std::to_string(most), text);
    return value;
}

uint64_t parseBytes(const std::string &option, const std::string &text) {
    constexpr uint64_t most = INT64_MAX;
    std::string_view number = text;
    uint64_t unit = 1, value = 0;
    int shift = 10;
    for (const char *const suffix : {"KiB", "MiB", "GiB", "TiB"}) {
        if (number.size() > 3 && number.substr(number.size() - 3) == suffix) {
            number.remove_suffix(3);
            unit = uint64_t{1} << shift;
            break;
        }
        shift += 10;
    }
    if (!parseInteger(number, value) || value == 0 || value > most / unit)
        badValue(option, "a whole number of bytes from 1 to 2^63 - 1, or of KiB, MiB, GiB or TiB like 8GiB", text);
    return value * unit;
}

void refuseMissingValue(const CLI::Option &option, const std::string &value) {
    // CLI11 takes whatever follows as the value, so `--out --json` would write a file named --json.
    if (value.rfind("--", 0) == 0)
        throw Failure(option.get_name() + " needs a value, and '" + value + "' follows it: to name a file so, write ./" + value);
    // Where verdicts are kept may be empty: nowhere.
    const bool mayBeEmpty = option.get_expected_min() == 0 || option.get_name() == "--verdicts";
    if (value.empty() && !mayBeEmpty) throw Failure(option.get_name() + " needs a value, not an empty one");
}

CLI::Option *addValue(CLI::App &app, const std::string &name, const char *type, const std::string &text,
                      std::function<void(const std::string &)> read) {
    const auto take = [&app, name, read = std::move(read)](const std::string &value) {
        refuseMissingValue(*app.get_option(name), value);
        read(value);
    };
    return app.add_option_function<std::string>(name, take, text)->type_name(type);
}

void refuseMissingValues(const CLI::App &app) {
    for (const CLI::Option *option : app.get_options()) {
        // Flags have no value.
        if (option->count() == 0 || option->get_expected_max() == 0) continue;
        for (const std::string &value : option->results()) refuseMissingValue(*option, value);
    }
}

} // namespace vkattn::program
