#pragma once
// The rotation frequencies of a model and the angles of a position. Immutable; any thread.

#include <cstdint>
#include <span>
#include <vector>

#include "model/model_spec.h"

namespace millrace {

class RopeAngles {
 public:
  // factors: [head_dim / 2] of rope_freqs.weight, or empty.
  // Sources: linear interpolation, Chen et al., arXiv 2306.15595; YaRN, Peng et al., arXiv
  // 2309.00071, equations 17 to 25.
  RopeAngles(const RopeSpec& rope, int head_dim, std::span<const float> factors);

  // [head_dim / 2] each; computed in double, so the same whatever came before.
  void write(int64_t position, float* cosines, float* sines) const;

  std::span<const double> frequencies() const { return frequencies_; }  // radians per position
  double gain() const { return gain_; }                                 // on cosine and sine

 private:
  std::vector<double> frequencies_;
  double gain_ = 1.0;
};

}  // namespace millrace
