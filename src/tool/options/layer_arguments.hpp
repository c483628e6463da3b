// The command line of `vkattn layer` and `vkattn explain layer`. No file is touched here.
#pragma once

#include "tool/options/attention/attention_options.hpp"

#include <vkattn/layer.h>

namespace vkattn::tool {

class LayerParser {
  public:
    // `explains`: of `explain layer`, which takes shapes in place of files too.
    explicit LayerParser(bool explains) { typed_.explains = explains; }
    void addOptions(CLI::App &app);
    // Throws Failure where a value is missing, or where options exclude each other.
    [[nodiscard]] LayerArguments interpret(const CLI::App &app);

  private:
    void addShapes(CLI::App &app);
    void checkShapes(const CLI::App &app) const;

    LayerArguments typed_; // filled as the command line is parsed
    Alignments alignments_;
};

} // namespace vkattn::tool
