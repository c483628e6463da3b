// The code that fuzz targets share. A broken promise ends the process: libFuzzer keeps the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace vkattn::test {

#define require(condition) ::vkattn::test::requireThat((condition), #condition, __FILE__, __LINE__)
inline void requireThat(bool holds, const char *condition, const char *file, int line) {
    if (holds) return;
    std::fprintf(stderr, "%s:%d: broken: %s\n", file, line, condition);
    std::abort();
}

template <size_t size> bool terminated(const char (&text)[size]) {
    return std::memchr(text, 0, size) != nullptr;
}

// Values from the bytes of an input; zeros after its end.
class Bytes {
  public:
    Bytes(const uint8_t *data, size_t size) : at_(data), left_(size) {}
    template <class T> T raw() {
        T value{};
        const size_t count = left_ < sizeof value ? left_ : sizeof value;
        if (count != 0) std::memcpy(&value, at_, count);
        at_ += count;
        left_ -= count;
        return value;
    }
    uint32_t below(uint32_t limit) { return raw<uint8_t>() % limit; }
    bool flag() { return (raw<uint8_t>() & 1) != 0; }
    [[nodiscard]] bool empty() const { return left_ == 0; }

  private:
    const uint8_t *at_;
    size_t left_;
};

} // namespace vkattn::test
