// What a process that tests a device tells the one that supervises it: lines of JSON.
#pragma once

#include <cstdint>
#include <string>

namespace vkattn::conform {

struct Message {
    enum class Kind {
        device,   // found: `text` is its facts as a line
        noDevice, // `text`: why none was found
        opened,   // `text`: facts
        // Check `index`: `text` is its result before it ran, as a line; `number` its cost.
        planned,
        // Of check `index`: `text` likewise; `number` is its cost with all its pipelines to
        // compile.
        begin,
        result,    // of check `index`: `text`
        compiled,  // so far: `index` pipelines in `number` seconds
        shrinking, // the case `text` is tried, which is smaller than the one that failed
        smallest,  // of check `index`: `text` is its result, with what the shrinking came to
        measuring, // all checks are done, kernels are timed now
        timing,    // `text`
        // Check `index` has lost the device: another process must go on. The last message.
        lost,
        failed, // the device cannot be opened: `text`. The last message
        end,    // all is done. The last message
    };
    Kind kind = Kind::end;
    std::string text;
    uint64_t index = 0;
    double number = 0;
};

[[nodiscard]] std::string messageToLine(const Message &message);
[[nodiscard]] bool messageFromLine(const std::string &line, Message &message); // false: it is none

} // namespace vkattn::conform
