#pragma once
// The rotary frequencies of Llama 3.1. Pure function, any thread.

#include <vector>

namespace millrace {

struct Llama3Scaling {
  double factor = 8.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  double original_context = 8192;
};

// [head_dim / 2] divisors of the frequencies, as the code of the Llama 3.1 model card has them:
// long wavelengths are stretched by the factor, short ones kept, those between interpolated. What
// GGUF files hold as rope_freqs.weight.
std::vector<float> llama3_rope_factors(const Llama3Scaling& scaling, double base, int head_dim);

}  // namespace millrace
