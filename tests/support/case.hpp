// The cases of `vkattn conform`, drawn from the tests' seed.
#pragma once

#include "conform/cases/case.hpp"
#include "support/seed.hpp"

namespace vkattn::test {

using namespace conform;

} // namespace vkattn::test
