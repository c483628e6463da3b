// What a problem may ask for: a row of this table is all that conform knows of an option, beside
// its data (case_data.cpp). Drawing, pairs and covering arrays, texts, reports, shrinking, soaking,
// and what shares a pipeline go by these rows.
#pragma once

#include "conform/cases/members.hpp"

#include <span>

namespace vkattn::conform {

// One way to ask for a feature; its name is that of a case with nothing else.
struct Variant {
    const char *name;
    void (*draw)(Case &, Random &);
};

// Terms of pipelineSignature(). Those of scores and masks are compiled into fused kernels one by
// one; all others share a bit. No two features that have variants share a bit but that.
constexpr uint32_t softcapTerm = 1, slopeTerm = 2, biasTerm = 4, maskTerm = 8, bitMaskTerm = 16, documentsTerm = 32, dimMajorTerm = 64,
                   anyOption = 128, valuesInKeysTerm = 256, dropoutTerm = 512, localTerm = 1024, gridTerm = 2048, blocksTerm = 4096,
                   prefixTerm = 8192, hooksTerm = 16384, pagesTerm = 32768;
constexpr uint32_t pairTerms = softcapTerm | slopeTerm | biasTerm | maskTerm | bitMaskTerm | documentsTerm | dropoutTerm | localTerm |
                               gridTerm | blocksTerm | prefixTerm | hooksTerm | pagesTerm;

struct Feature {
    const char *name = nullptr; // in reports; NULL: not in them
    std::span<const Variant> variants;
    bool (*isOn)(const Case &) = nullptr; // NULL where there is no name
    std::span<const Member> members;      // that mean nothing where it is off
    uint32_t pipelineTerm = 0;            // of pipelineSignature(), where it is on
    bool hides = false;                   // keys from some rows and not from others
    // Types and dims: those of a covering array are its palette's.
    bool ofPalette = false;
};

// In the order of reports and of texts.
[[nodiscard]] std::span<const Feature> features();

// What the features of a case, and keys that are dim-major, compile anew: bits above.
[[nodiscard]] uint32_t pipelineTerms(const Case &c);

// Turns a feature off: its members are those of an ordinary case.
void drop(const Feature &feature, Case &c);
// What a feature that is off says has no meaning: one text for one case.
void dropMeaningless(Case &c);

} // namespace vkattn::conform
