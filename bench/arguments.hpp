// The command line, checked and turned into the work to do. Rivals' files are read and outputs'
// folders are tried here too.
#pragma once

#include "compile/table.hpp"
#include "measure/linear.hpp"
#include "measure/measure.hpp"
#include "report/csv.hpp"
#include "shapes/shapes.hpp"

#include <optional>
#include <string>
#include <vector>

namespace vkattn::bench {

enum class PlotValue { gflops, gbs, milliseconds };

struct Arguments {
    bool list = false;
    bool record = false; // measure the CPU time of recording, in place of the computation
    // Measure the time that an exported cache saves, in place of the computation.
    bool cache = false;
    bool ceilings = false;   // measure the device's best rates, in place of the computation
    bool products = false;   // measure projections, in place of attention
    bool gradients = false;  // measure training's passes, in place of the forward pass alone
    bool statistics = false; // measure statistics of attention beside the forward pass
    bool cascade = false;    // measure sequences that share a prefix, and a cascade of them
    // Measure these in place of attention alone; empty: not asked for.
    std::vector<LinearShape> linear;
    // Report the compiler's figures for the kernels, in place of the computation.
    bool compileReport = false;
    // Measure the compile time of pipelines, in place of the computation.
    bool compileTimes = false;
    std::vector<uint32_t> headDims; // for --compile-times
    bool rawStatistics = false;
    std::string representations;      // folder; empty: not asked for
    std::string compileTable;         // path of the table to compare with; empty: none
    std::vector<CompileRow> expected; // the rows of that table
    std::vector<Shape> bases;         // the shapes as they were named
    // The shapes to measure: the bases, or in a sweep each base at each length.
    std::vector<Shape> shapes;
    std::vector<Kernel> kernels;
    bool operations = false; // of the compile report: those beside attention too
    std::string device;
    std::string tuningFile, tuning; // path and text; empty: the built-in tiles
    MeasureOptions measure;
    bool sweep = false;
    std::string csv, json, plot; // paths; empty: not asked for
    PlotValue plotValue = PlotValue::gflops;
    std::vector<RivalRow> rivals, compare;
};

// Returns nothing where help or version was printed. Throws Failure.
[[nodiscard]] std::optional<Arguments> parseArguments(int argc, const char *const *argv);

} // namespace vkattn::bench
