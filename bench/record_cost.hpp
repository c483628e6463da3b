// The CPU time of vkattnRecord: what a frame pays on the thread that fills its command buffer.
#pragma once

#include "machine.hpp"
#include "measure.hpp"

#include <memory>
#include <string>

namespace vkattn::bench {

struct RecordCost {
    Shape shape;
    std::string failure; // why there are no times; empty: there are
    std::string kernel;
    uint32_t dispatches = 0, calls = 0; // calls that were timed
    bool pushDescriptors = false;
    double microseconds = 0;    // a call, median, with the driver's own work
    double ownMicroseconds = 0; // the same with Vulkan functions that do nothing: the library alone
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
