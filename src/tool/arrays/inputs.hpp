// Input arrays: .npy files seen as the operands of the library.
#pragma once

#include "program/files/npy.hpp"
#include "tool/arrays/memory.hpp"

#include <vkattn/operations.h>

#include <string>
#include <vector>

namespace vkattn::tool {

// What a program reads.
[[nodiscard]] constexpr bool isProgramBuffer(vkattn_role role) {
    return role >= VKATTN_PROGRAM_BUFFER_0 && role <= VKATTN_PROGRAM_BUFFER_3;
}
// Pages in CSR.
[[nodiscard]] constexpr bool isPageArray(vkattn_role role) {
    return role >= VKATTN_PAGE_INDPTR && role <= VKATTN_LAST_PAGE_LENGTHS;
}
// Arrays without a layout, of 32-bit words.
[[nodiscard]] constexpr bool isSmallArray(vkattn_role role) {
    return (role >= VKATTN_KEY_LENGTHS && role < VKATTN_WQ) || role == VKATTN_BLOCK_MASK || role == VKATTN_PAGE_TABLE ||
           isPageArray(role) || role == VKATTN_QUERY_OFFSETS || role == VKATTN_KEY_OFFSETS || isProgramBuffer(role);
}

class Input {
  public:
    // Opens the file and checks what does not depend on other arrays: header, dtype, rank, extents
    // of 32 bits. Tokens without heads are [token, model] or [batch, token, model]. Throws Failure.
    Input(vkattn_role role, const std::string &option, const std::string &path, bool hasHeads = true);

    [[nodiscard]] vkattn_role role() const { return role_; }
    // The operand of the problem that the array is, where that is not the one of its option.
    void takeRole(vkattn_role role) { role_ = role; }
    [[nodiscard]] const std::string &option() const { return option_; }
    [[nodiscard]] const std::string &path() const { return path_; }
    [[nodiscard]] const program::NpyHeader &header() const { return file_.header(); }
    // Tensors [batch, head, token, dim], as the file stores them: Fortran order is only other
    // strides. Not meaningful for small arrays.
    [[nodiscard]] const vkattn_layout &layout() const { return layout_; }

    // A decay has a number for each dim, and not for each token: its last dimension is that of the dims.
    void takeDims() { makeLayout(true, true); }

    // The data will be rounded to this floating dtype, and the layout says so.
    void roundTo(vkattn_dtype dtype);

    // "k.npy (4, 8) float32", for messages.
    [[nodiscard]] std::string text() const;

    // Where each ragged sequence begins and the last one ends, among so many tokens ("query" or
    // "key"), read now. Returns the length of the longest one. Throws Failure, with the entry,
    // where they decrease or lead outside; notes on stderr what no sequence covers.
    [[nodiscard]] uint32_t readOffsets(uint32_t tokens, const char *tokenName);

    // Where the pages of each batch entry begin among so many in CSR, and the last ones end, read now; what leads outside
    // is clamped, with a note on stderr. Returns the most pages that an entry has, and 1 where none has any.
    [[nodiscard]] uint32_t readPagePlaces(uint32_t pages);

    // The position of each token, read now, by batch entry and token. Throws Failure, with the entry,
    // where one is negative or above `last`; `reason` says what `last` is.
    [[nodiscard]] std::vector<uint32_t> readPositions(uint32_t tokens, uint32_t last, const std::string &reason);

    // All entries of an array of integers in C order, read now.
    [[nodiscard]] std::vector<int64_t> readNumbers();

    // Reads the data, as the operation wants it. Conversions that the user has not asked for are
    // noted on stderr. Throws Failure.
    [[nodiscard]] HostBuffer load(const vkattn_operation &operation);
    // The same of a tensor, in the order of the file.
    [[nodiscard]] HostBuffer load();

  private:
    [[noreturn]] void fail(const std::string &reason) const;
    void checkType() const;
    void makeLayout(bool hasHeads, bool hasDims = false);
    void read(std::span<std::byte> into);
    void readConverted(const HostBuffer &into, vkattn_dtype dtype);
    void readClamped(const HostBuffer &into, int64_t least, int64_t most, const char *what);
    void readPages(const HostBuffer &into, uint32_t poolPages);
    void readGlobalTokens(const HostBuffer &into, uint32_t keyTokens);
    void readProgramBuffer(const HostBuffer &into);
    void readDocumentIds(const HostBuffer &into, uint32_t tokens);
    // Reads a number for each token, in C order. Throws Failure, with the entry and what was
    // `expected`, where one is negative or above `most`.
    void readOfTokens(std::span<uint32_t> into, uint32_t tokens, uint32_t most, const std::string &expected);
    // visit(index in the file, int64_t value)
    template <class Visit> void readIntegers(const Visit &visit);

    vkattn_role role_;
    std::string option_, path_;
    program::NpyFile file_;
    vkattn_layout layout_{};
    bool rounded_ = false;
    std::vector<uint32_t> offsets_;
};

} // namespace vkattn::tool
