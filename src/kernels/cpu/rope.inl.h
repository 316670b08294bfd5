#pragma once
// Bias, head norm and rotary embedding over any register type V.

#include "kernels/cpu/inline.h"
#include "kernels/cpu/norm.inl.h"
#include "kernels/rope.h"

namespace millrace::kernels {
namespace {

template <class V>
MR_INLINE void rotate_halves(const HeadRotation& job) {
  using F = typename V::F;
  const int half = job.head_dim / 2;
  const F scale = V::set1(job.scale);
  for (int i = 0; i < half; i += V::kWidth) {
    const int n = half - i < V::kWidth ? half - i : V::kWidth;
    const F cosine = V::load_partial(job.cosines + i, n);
    const F sine = V::load_partial(job.sines + i, n);
    const F a = V::load_partial(job.x + i, n);
    const F b = V::load_partial(job.x + half + i, n);
    const F turned_a = V::fnma(b, sine, V::mul(a, cosine));
    const F turned_b = V::fma(a, sine, V::mul(b, cosine));
    V::store_partial(job.x + i, V::mul(turned_a, scale), n);
    V::store_partial(job.x + half + i, V::mul(turned_b, scale), n);
  }
}

MR_INLINE void rotate_neighbours(const HeadRotation& job) {
  for (int i = 0; i < job.head_dim / 2; ++i) {
    const float cosine = job.cosines[i];
    const float sine = job.sines[i];
    const float a = job.x[2 * i];
    const float b = job.x[2 * i + 1];
    job.x[2 * i] = (a * cosine - b * sine) * job.scale;
    job.x[2 * i + 1] = (a * sine + b * cosine) * job.scale;
  }
}

template <class V>
void rotate_head(const HeadRotation& job) {
  if (job.bias != nullptr) {
    for (int i = 0; i < job.head_dim; i += V::kWidth) {
      const int n = job.head_dim - i < V::kWidth ? job.head_dim - i : V::kWidth;
      const auto sum = V::add(V::load_partial(job.x + i, n), V::load_partial(job.bias + i, n));
      V::store_partial(job.x + i, sum, n);
    }
  }
  if (job.norm_weight != nullptr) {
    normalise<V>(job.x, job.norm_weight, job.eps, job.head_dim, job.x);
  }
  if (job.is_half_split) {
    rotate_halves<V>(job);
  } else {
    rotate_neighbours(job);
  }
}

}  // namespace
}  // namespace millrace::kernels
