#pragma once
// Elementary functions over the registers of an instruction set V.

#include "kernels/cpu/inline.h"

namespace millrace::kernels {
namespace {

// 2^x. Relative error below 3e-7 for -126 <= x < 127.5; infinity from there on, 0 below -126.5 (no
// denormals); a NaN gives 0.
// x = n + r with |r| <= 1/2; 2^r by its Taylor polynomial of degree 6 (remainder below 2e-7).
template <class V>
MR_INLINE typename V::F exp2(typename V::F x) {
  using F = typename V::F;
  const F clamped = V::min(V::max(x, V::set1(-127.0f)), V::set1(128.0f));
  const F n = V::round(clamped);
  const F r = V::sub(clamped, n);
  F p = V::set1(1.5403530e-4f);
  p = V::fma(p, r, V::set1(1.3333558e-3f));
  p = V::fma(p, r, V::set1(9.6181291e-3f));
  p = V::fma(p, r, V::set1(5.5504109e-2f));
  p = V::fma(p, r, V::set1(2.4022651e-1f));
  p = V::fma(p, r, V::set1(6.9314718e-1f));
  p = V::fma(p, r, V::set1(1.0f));
  const auto exponent = V::template shift_left<23>(V::add_i(V::to_int(n), V::set1_i(127)));
  return V::mul(p, V::as_float(exponent));
}

// e^x with the limits of exp2. ln 2 is taken off in two pieces: for large n the low one matters.
template <class V>
MR_INLINE typename V::F exp(typename V::F x) {
  using F = typename V::F;
  const F high = V::mul(x, V::set1(1.44269502f));
  const F n = V::round(V::min(V::max(high, V::set1(-127.0f)), V::set1(128.0f)));
  F r = V::fnma(n, V::set1(0.693359375f), x);  // ln 2, upper bits: n * it is exact
  r = V::fnma(n, V::set1(-2.12194440e-4f), r);
  r = V::min(V::max(r, V::set1(-0.5f)), V::set1(0.5f));
  F p = V::set1(1.0f / 720);
  p = V::fma(p, r, V::set1(1.0f / 120));
  p = V::fma(p, r, V::set1(1.0f / 24));
  p = V::fma(p, r, V::set1(1.0f / 6));
  p = V::fma(p, r, V::set1(0.5f));
  p = V::fma(p, r, V::set1(1.0f));
  p = V::fma(p, r, V::set1(1.0f));
  const auto exponent = V::template shift_left<23>(V::add_i(V::to_int(n), V::set1_i(127)));
  return V::mul(p, V::as_float(exponent));
}

}  // namespace
}  // namespace millrace::kernels
