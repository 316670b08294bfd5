#include "base/math_digest.h"

#include <cmath>
#include <vector>

namespace millrace {

Digest256 math_digest() {
  // Another rounding of a step shows in the last bit of one result in a few hundred.
  constexpr int kArguments = 4'096;
  std::vector<double> results;
  for (int i = 1; i <= kArguments; ++i) {
    const double x = i / 37.0;
    for (const double result : {std::log(x),
                                std::log(i / (kArguments + 1.0)),
                                std::exp(-x),
                                std::pow(10'000.0 + i, -1.0 / x),
                                std::cos(x * x),
                                std::sin(x * x)}) {
      results.push_back(result);
    }
  }
  Sha256 sha;
  sha.add(std::as_bytes(std::span(results)));
  return sha.finish();
}

}  // namespace millrace
