#include "formats/rope_factors.h"

#include <cmath>
#include <numbers>

namespace millrace {

std::vector<float> llama3_rope_factors(const Llama3Scaling& scaling, double base, int head_dim) {
  std::vector<float> divisors;
  for (int pair = 0; pair < head_dim / 2; ++pair) {
    const double exponent = 2.0 * pair / head_dim;
    const double wavelength = 2.0 * std::numbers::pi * std::pow(base, exponent);
    double divisor = 1.0;
    if (wavelength > scaling.original_context / scaling.low_freq_factor) {
      divisor = scaling.factor;
    } else if (wavelength >= scaling.original_context / scaling.high_freq_factor) {
      const double smooth = (scaling.original_context / wavelength - scaling.low_freq_factor) /
                            (scaling.high_freq_factor - scaling.low_freq_factor);
      divisor = 1.0 / ((1.0 - smooth) / scaling.factor + smooth);
    }
    divisors.push_back(static_cast<float>(divisor));
  }
  return divisors;
}

}  // namespace millrace
