// Arrays of the tests, and .npy files written and read by code of their own: the tool's is what is
// tested.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

struct Array {
    std::vector<size_t> shape;
    std::vector<double> values; // C order

    [[nodiscard]] static size_t count(const std::vector<size_t> &shape);
};

// Returns the seed from VKATTN_TEST_SEED, or a fixed one; prints it once.
[[nodiscard]] uint64_t testSeed();

[[nodiscard]] Array randomArray(std::mt19937_64 &random, const std::vector<size_t> &shape, double spread = 1);

// Every element rounded to bfloat16, to nearest even.
[[nodiscard]] Array roundedToBfloat16(Array array);

struct NpyOptions {
    std::string descr = "<f4";
    bool fortran = false;
    int version = 1;
    bool pad = true; // to 64 bytes, as NumPy does; without, the data is not aligned
};

// Values become what the dtype holds, so that a reference sees what the tool sees.
void writeNpy(const std::filesystem::path &path, Array &array, const NpyOptions &options = {});
void writeNpy(const std::filesystem::path &path, Array &&array, const NpyOptions &options = {});

struct ReadArray : Array {
    std::string descr;
};

// Fails the test where the file is not exactly what the tool promises: version 1.0, C order, data
// at a multiple of 64 bytes.
[[nodiscard]] ReadArray readNpy(const std::filesystem::path &path);

[[nodiscard]] std::string readBytes(const std::filesystem::path &path);
void writeBytes(const std::filesystem::path &path, const std::string &bytes);

// A whole .npy file of the given dict and data.
[[nodiscard]] std::string npyBytes(const std::string &dict, const std::string &data, int version = 1, bool pad = true);
