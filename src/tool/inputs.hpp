// Input arrays: .npy files seen as tensors [batch, head, token, dim] of the library.
#pragma once

#include "memory.hpp"
#include "npy.hpp"

#include <vkattn/problem.h>

#include <string>

namespace vkattn::tool {

class Input {
  public:
    // Opens the file and checks what does not depend on other arrays: header, dtype, rank, extents of 32 bits. Throws Failure.
    Input(vkattn_role role, const std::string &option, const std::string &path);

    [[nodiscard]] vkattn_role role() const { return role_; }
    [[nodiscard]] const std::string &option() const { return option_; }
    [[nodiscard]] const std::string &path() const { return path_; }
    [[nodiscard]] const NpyHeader &header() const { return file_.header(); }
    // As the file stores it: Fortran order is only other strides. Not meaningful for key lengths.
    [[nodiscard]] const vkattn_layout &layout() const { return layout_; }
    [[nodiscard]] uint64_t memoryBytes() const; // what load() will allocate

    // "k.npy (4, 8) float32", for messages.
    [[nodiscard]] std::string text() const;

    // Reads the data. float64 becomes float32, with a note on stderr. Throws Failure.
    [[nodiscard]] HostBuffer load();
    // Reads key lengths as u32; those outside [0, keyTokens] are clamped, with a note on stderr. Throws Failure.
    [[nodiscard]] HostBuffer loadKeyLengths(uint32_t keyTokens);

  private:
    [[noreturn]] void fail(const std::string &reason) const;
    void checkType() const;
    void makeLayout();
    void read(std::span<std::byte> into);
    void readFloat64(std::span<float> into);

    vkattn_role role_;
    std::string option_, path_;
    NpyFile file_;
    vkattn_layout layout_{};
};

} // namespace vkattn::tool
