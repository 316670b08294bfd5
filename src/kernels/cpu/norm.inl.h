#pragma once
// Residual addition and RMSNorm over any register type V.

#include "kernels/cpu/inline.h"
#include "kernels/norm.h"

namespace millrace::kernels {
namespace {

// sum of x[i]^2. The order of the additions depends on n alone.
template <class V>
MR_INLINE float square_sum(const float* x, int64_t n) {
  using F = typename V::F;
  F sums[2] = {V::zero(), V::zero()};
  int64_t i = 0;
  for (; i + 2 * V::kWidth <= n; i += 2 * V::kWidth) {
    const F a = V::load(x + i);
    const F b = V::load(x + i + V::kWidth);
    sums[0] = V::fma(a, a, sums[0]);
    sums[1] = V::fma(b, b, sums[1]);
  }
  for (; i < n; i += V::kWidth) {
    const F a = i + V::kWidth <= n ? V::load(x + i) : V::load_partial(x + i, int(n - i));
    sums[0] = V::fma(a, a, sums[0]);
  }
  return V::sum(V::add(sums[0], sums[1]));
}

// y = x / sqrt(mean(x^2) + eps) * weight; y may be x.
template <class V>
MR_INLINE void normalise(const float* x, const float* weight, float eps, int64_t n, float* y) {
  using F = typename V::F;
  const float mean = square_sum<V>(x, n) / static_cast<float>(n);
  const F scale = V::set1(1.0f / __builtin_sqrtf(mean + eps));
  int64_t i = 0;
  for (; i + V::kWidth <= n; i += V::kWidth) {
    V::store(y + i, V::mul(V::mul(V::load(x + i), scale), V::load(weight + i)));
  }
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    const F scaled = V::mul(V::load_partial(x + i, rest), scale);
    V::store_partial(y + i, V::mul(scaled, V::load_partial(weight + i, rest)), rest);
  }
}

template <class V>
void residual_norm(const ResidualNorm& job) {
  using F = typename V::F;
  if (job.delta == nullptr) {
    normalise<V>(job.x, job.weight, job.eps, job.n, job.y);
    return;
  }
  const auto add = [&](int64_t i, auto load, auto store) {
    F delta = load(job.delta + i);
    if (job.delta_bias != nullptr) delta = V::add(delta, load(job.delta_bias + i));
    const F h = V::add(load(job.x + i), delta);
    if (job.h != nullptr) store(job.h + i, h);
    store(job.y + i, h);
  };
  int64_t i = 0;
  for (; i + V::kWidth <= job.n; i += V::kWidth) {
    add(
        i,
        [](const float* p) { return V::load(p); },
        [](float* p, F value) { V::store(p, value); });
  }
  if (i < job.n) {
    const int rest = static_cast<int>(job.n - i);
    add(
        i,
        [&](const float* p) { return V::load_partial(p, rest); },
        [&](float* p, F value) { V::store_partial(p, value, rest); });
  }
  normalise<V>(job.y, job.weight, job.eps, job.n, job.y);
}

}  // namespace
}  // namespace millrace::kernels
