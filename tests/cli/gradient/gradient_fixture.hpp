// Runs `vkattn grad`, and compares its gradients with central differences of the forward reference,
// which knows no backward pass.
#pragma once

#include "cli/run/run_fixture.hpp"

class GradientTest : public RunTest {
  protected:
    Array dOut;
    std::optional<Array> dLse, dWeights;
    std::vector<std::string> wanted = {"dq", "dk", "dv"};

    // Writes q.npy, k.npy, v.npy and dout.npy, in the rank of q.
    void givenAll(const std::vector<size_t> &qShape, const std::vector<size_t> &kShape, const std::vector<size_t> &vShape,
                  const NpyOptions &options = {});
    void givenBias(const std::vector<size_t> &shape, const NpyOptions &options = {});
    void givenDLse(const std::vector<size_t> &shape);
    void givenDWeights(const std::vector<size_t> &shape);

    // Of a gradient. dq.npy would be the document ids of queries.
    [[nodiscard]] static std::string fileOf(const std::string &name) { return "g" + name + ".npy"; }
    // "grad --q q.npy ... --dout dout.npy", --X FILE of everything wanted, where, and what follows.
    [[nodiscard]] Arguments gradientCommand(const Arguments &more = {}) const;
    // Runs with --verify=all, and compares shape, dtype and every element of what is wanted.
    Outcome checkGradients(const Arguments &more = {}, const std::string &descr = "<f4");
    // The bytes of the files of everything wanted.
    [[nodiscard]] std::string bytesOfGradients() const;
    void removeGradients() const;
    // Expects exit status 2 with these words, and that no gradient was written.
    void refused(const Arguments &more, const std::vector<std::string> &words) const;

  private:
    [[nodiscard]] double loss() const;
    [[nodiscard]] double difference(double &parameter) const;
    void compareOne(const std::string &name, const std::string &descr);
};
