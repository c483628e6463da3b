// The CPU time of vkattnRecord: the cost of a frame on the thread that fills its command buffer.
#pragma once

#include "machine/machine.hpp"
#include "measure/measure.hpp"

#include <memory>
#include <string>

namespace vkattn::bench {

struct RecordCost {
    Shape shape;
    std::string failure; // why there are no times; empty where there are
    std::string kernel;
    uint32_t dispatches = 0, calls = 0; // calls that were timed
    bool pushDescriptors = false;
    struct Times {
        double median = 0, least = 0; // microseconds a call, for batches of calls
    };
    Times whole; // with the driver's own work
    Times own;   // with Vulkan functions that do nothing: the time of the library alone
};

class RecordMeter {
  public:
    explicit RecordMeter(const DeviceInfo &device); // throws Failure
    ~RecordMeter();
    RecordMeter(const RecordMeter &) = delete;
    RecordMeter &operator=(const RecordMeter &) = delete;
    [[nodiscard]] RecordCost measure(const Shape &shape, const Kernel &kernel, const std::string &tuning);

  private:
    class Device;
    std::unique_ptr<Device> device_;
};

void printRecordHeading(const Machine &machine);
void printRecordRow(const RecordCost &cost);
[[nodiscard]] std::string recordCsvHeader();
[[nodiscard]] std::string recordCsvRow(const Machine &machine, const RecordCost &cost);

} // namespace vkattn::bench
