// Messages of a process that tests a device to the process that supervises it: lines of JSON.
#pragma once

#include <cstdint>
#include <string>

namespace vkattn::conform {

struct Message {
    enum class Kind {
        device,   // a device was found: `text` is its facts as a line
        noDevice, // no device was found: `text` is the reason
        opened,   // the device is open: `text` is its facts
        // Check `index`: `text` is its result before it ran, as a line; `number` its cost.
        planned,
        // Check `index` begins: `text` is its result before it ran, as a line; `number` is its cost
        // with all its pipelines to compile.
        begin,
        result,    // check `index` is done: `text` is its result
        compiled,  // compiled so far: `index` pipelines in `number` seconds
        shrinking, // the case `text`, smaller than the one that failed, is tried
        smallest,  // check `index` has shrunk: `text` is its result, with the outcome of shrinking
        measuring, // all checks are done, and kernels are timed now
        timing,    // a kernel was timed: `text`
        // Check `index` has lost the device: another process must go on. This message is the last.
        lost,
        failed, // the device cannot be opened: `text`. This message is the last
        end,    // all is done. This message is the last
    };
    Kind kind = Kind::end;
    std::string text;
    uint64_t index = 0;
    double number = 0;
};

[[nodiscard]] std::string messageToLine(const Message &message);
// Returns false where the line is no message.
[[nodiscard]] bool messageFromLine(const std::string &line, Message &message);

} // namespace vkattn::conform
