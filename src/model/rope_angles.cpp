#include "model/rope_angles.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace millrace {
namespace {

// The pair (a real number) that turns `rotations` times over the original context.
double pair_of_rotations(const RopeSpec& rope, int head_dim, double rotations) {
  const double wavelength = static_cast<double>(rope.original_context_length) / rotations;
  return head_dim * std::log(wavelength / (2 * std::numbers::pi)) / (2 * std::log(rope.base));
}

}  // namespace

RopeAngles::RopeAngles(const RopeSpec& rope, int head_dim, std::span<const float> factors) {
  const bool is_yarn = rope.scaling == RopeScalingType::kYarn;
  double low = 0;   // pairs up to here keep their frequency
  double high = 1;  // pairs from here on are interpolated
  if (is_yarn) {
    low = std::max(std::floor(pair_of_rotations(rope, head_dim, rope.beta_fast)), 0.0);
    high = std::min(std::ceil(pair_of_rotations(rope, head_dim, rope.beta_slow)),
                    static_cast<double>(head_dim - 1));
    gain_ = rope.attention_factor;
  }
  for (int pair = 0; pair < head_dim / 2; ++pair) {
    double frequency = std::pow(rope.base, -2.0 * pair / head_dim);
    if (!factors.empty()) frequency /= static_cast<double>(factors[static_cast<size_t>(pair)]);
    double interpolated = rope.scaling == RopeScalingType::kNone ? 0.0 : 1.0;
    if (is_yarn) interpolated = std::clamp((pair - low) / std::max(high - low, 0.001), 0.0, 1.0);
    frequencies_.push_back(frequency * (1 - interpolated) + frequency / rope.factor * interpolated);
  }
}

void RopeAngles::write(int64_t position, float* cosines, float* sines) const {
  for (size_t pair = 0; pair < frequencies_.size(); ++pair) {
    const double angle = static_cast<double>(position) * frequencies_[pair];
    cosines[pair] = static_cast<float>(std::cos(angle) * gain_);
    sines[pair] = static_cast<float>(std::sin(angle) * gain_);
  }
}

}  // namespace millrace
