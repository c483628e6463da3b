#include "tool/verdicts.hpp"

#include "program/failure.hpp"
#include "program/note.hpp"
#include "tool/options/names.hpp"
#include "tool/user_folder.hpp"

#include <cstdlib>
#include <filesystem>

namespace vkattn::tool {
using namespace program;
namespace {

namespace fs = std::filesystem;

std::string defaultFile() {
    const fs::path folder = userFolder("XDG_CACHE_HOME", ".cache");
    return folder.empty() ? "" : (folder / "verdicts").string();
}

} // namespace

std::string verdictFile(const std::optional<std::string> &option) {
    if (!option) return defaultFile();
    if (option->empty() || *option == "none") return "";
    const fs::path path(*option);
    std::error_code error;
    if (fs::exists(path, error) && !fs::is_regular_file(path, error))
        throw Failure("--verdicts " + *option + " is not a regular file: name a file, which is made where it is missing, or none");
    const fs::path folder = path.parent_path();
    if (!folder.empty() && !fs::is_directory(folder, error))
        throw Failure("--verdicts " + *option + ": there is no folder " + folder.string() + ": make it, or name another file, or none");
    return path.string();
}

void useVerdicts(const std::optional<std::string> &option, RuntimeOptions &options) {
    options.verdictFile = verdictFile(option);
    options.log = [quiet = option ? std::string() : options.verdictFile](const char *message) {
        if (quiet.empty() || std::string(message).find(quiet) == std::string::npos) printWarning(message);
    };
}

void applyVerdicts(const std::string &file, const DeviceInfo &device, vkattn_caps &caps) {
    for (const KernelVerdict &found : rememberedVerdicts(file, device)) {
        if (found.kernel == "halves") caps.exactHalves = found.verdict == VKATTN_VERDICT_TRUSTED;
        for (const vkattn_kernel kernel : KernelList()) {
            if (found.kernel != vkattnKernelName(kernel) || !(selfTestedKernels() >> kernel & 1u)) continue;
            if (found.verdict == VKATTN_VERDICT_WRONG) caps.wrongKernels |= 1u << kernel;
            if (found.verdict == VKATTN_VERDICT_SLOW) caps.slowKernels |= 1u << kernel;
        }
    }
}

} // namespace vkattn::tool
