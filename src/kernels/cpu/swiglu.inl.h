#pragma once
// The gated activation over any register type V.

#include "kernels/cpu/inline.h"
#include "kernels/cpu/math.inl.h"

namespace millrace::kernels {
namespace {

template <class V>
void swiglu(const float* gate, const float* up, int64_t n, float* out) {
  using F = typename V::F;
  for (int64_t i = 0; i < n; i += V::kWidth) {
    const int lanes = static_cast<int>(n - i < V::kWidth ? n - i : V::kWidth);
    const F g = V::load_partial(gate + i, lanes);
    const F bottom = V::add(V::set1(1.0f), exp<V>(V::sub(V::zero(), g)));
    V::store_partial(out + i, V::mul(V::div(g, bottom), V::load_partial(up + i, lanes)), lanes);
  }
}

}  // namespace
}  // namespace millrace::kernels
