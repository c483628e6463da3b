// The command line, checked and turned into what to measure. Rivals' files are read and outputs'
// folders tried here too.
#pragma once

#include "compile/table.hpp"
#include "measure/measure.hpp"
#include "measure/shapes.hpp"
#include "report/csv.hpp"

#include <optional>
#include <string>
#include <vector>

namespace vkattn::bench {

enum class PlotValue { gflops, gbs, milliseconds };

struct Arguments {
    bool list = false;
    bool record = false;   // the CPU time of recording, in place of the computation
    bool cache = false;    // what an exported cache saves, in place of the computation
    bool ceilings = false; // what the device does at best, in place of the computation
    // What the device's compiler makes of the kernels, in place of the computation.
    bool compileReport = false;
    bool compileTimes = false;      // how long it compiles them, in place of the computation
    std::vector<uint32_t> headDims; // of --compile-times
    bool rawStatistics = false;
    std::string representations;      // folder; empty: not asked for
    std::string compileTable;         // path of the table to compare with; empty: none
    std::vector<CompileRow> expected; // its rows
    std::vector<Shape> bases;         // as named
    // To measure: the bases, or in a sweep each of them at each length.
    std::vector<Shape> shapes;
    std::vector<Kernel> kernels;
    std::string device;
    std::string tuningFile, tuning; // its path and its text; empty: the built-in tiles
    MeasureOptions measure;
    bool sweep = false;
    std::string csv, json, plot; // paths; empty: not asked for
    PlotValue plotValue = PlotValue::gflops;
    std::vector<RivalRow> rivals, compare;
};

// Empty where help or version was printed. Throws Failure.
[[nodiscard]] std::optional<Arguments> parseArguments(int argc, const char *const *argv);

} // namespace vkattn::bench
