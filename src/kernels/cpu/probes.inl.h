#pragma once
// The loops of machine_probe.h for any register type V. The tile is that of the matrix kernels: the
// registers of kVectors codes stay, kRows values are broadcast from memory in every step. Sums are
// as many as hide the latency of the instruction.

#include "kernels/cpu/inline.h"
#include "kernels/machine_probe.h"

namespace millrace::kernels {
namespace {

constexpr int kProbeRows = 4;
constexpr int kBf16ProbeRows = 8;
constexpr int kProbeVectors = 2;
constexpr int kProbeSteps = 16;  // a loop; each with operands of its own

// The kinds of dot product: a register of codes, a broadcast operand, a sum.
template <class V>
struct F32Dot {
  using Sum = typename V::F;
  using Operand = typename V::F;
  static constexpr int kMacs = V::kWidth;
  MR_INLINE static Sum zero() { return V::zero(); }
  MR_INLINE static Operand load(const uint8_t* p) {
    return V::load(reinterpret_cast<const float*>(p));
  }
  MR_INLINE static Operand broadcast(const uint8_t* p) {
    return V::set1(*reinterpret_cast<const float*>(p));
  }
  MR_INLINE static Sum add(Sum sum, Operand a, Operand b) { return V::fma(a, b, sum); }
  MR_INLINE static void store(uint8_t* p, Sum sum) { V::store(reinterpret_cast<float*>(p), sum); }
};

template <class V>
struct IntegerDot {
  using Operand = typename V::I;
  MR_INLINE static Operand load(const uint8_t* p) { return V::load_i(p); }
  MR_INLINE static Operand broadcast(const uint8_t* p) { return V::broadcast(p); }
};

template <class V>
struct Int16Dot : IntegerDot<V> {
  using Sum = typename V::I;
  using Operand = typename V::I;
  static constexpr int kMacs = 2 * V::kWidth;
  MR_INLINE static Sum zero() { return V::zero_i(); }
  MR_INLINE static Sum add(Sum sum, Operand a, Operand b) { return V::dot2(sum, a, b); }
  MR_INLINE static void store(uint8_t* p, Sum sum) { V::store_i(p, sum); }
};

template <class V>
struct Int8Dot : IntegerDot<V> {
  using Sum = typename V::Quads;
  using Operand = typename V::I;
  static constexpr int kMacs = 4 * V::kWidth;
  MR_INLINE static Sum zero() { return V::quads_zero(); }
  MR_INLINE static Sum add(Sum sum, Operand a, Operand b) { return V::dot4(sum, a, b); }
  MR_INLINE static void store(uint8_t* p, Sum sum) { V::store_i(p, V::quads_sum(sum)); }
};

template <class V>
struct Bf16Dot : IntegerDot<V> {
  using Sum = typename V::F;
  using Operand = typename V::I;
  static constexpr int kMacs = 2 * V::kWidth;
  MR_INLINE static Sum zero() { return V::zero(); }
  MR_INLINE static Sum add(Sum sum, Operand a, Operand b) { return V::dot_bf16(sum, a, b); }
  MR_INLINE static void store(uint8_t* p, Sum sum) { V::store(reinterpret_cast<float*>(p), sum); }
};

template <class V, class Dot, int kRows = kProbeRows>
void probe_dot(const uint8_t* operands, int64_t n_loops, uint8_t* out) {
  constexpr int kBytes = 4 * V::kWidth;
  static_assert(kRows * kProbeVectors * kBytes <= kProbeBytes);
  typename Dot::Operand code[kProbeVectors];
  typename Dot::Sum sum[kProbeVectors][kRows];
  MR_UNROLL for (int v = 0; v < kProbeVectors; ++v) {
    code[v] = Dot::load(operands + v * kBytes);
    MR_UNROLL for (int r = 0; r < kRows; ++r) sum[v][r] = Dot::zero();
  }
  for (int64_t loop = 0; loop < n_loops; ++loop) {
    for (int step = 0; step < kProbeSteps; ++step) {
      MR_UNROLL for (int r = 0; r < kRows; ++r) {
        const auto value = Dot::broadcast(operands + 4 * (step * kRows + r));
        MR_UNROLL for (int v = 0; v < kProbeVectors; ++v) {
          sum[v][r] = Dot::add(sum[v][r], code[v], value);
        }
      }
    }
  }
  MR_UNROLL for (int v = 0; v < kProbeVectors; ++v) {
    MR_UNROLL for (int r = 0; r < kRows; ++r) {
      Dot::store(out + (v * kRows + r) * kBytes, sum[v][r]);
    }
  }
}

template <class V, bool kIsAhead>
void probe_read(const uint8_t* bytes, int64_t n, uint8_t* out) {
  constexpr int kStreams = 4;
  constexpr int kBytes = 4 * V::kWidth;
  const int64_t part = n / kStreams;
  typename V::I any[kStreams];
  MR_UNROLL for (int s = 0; s < kStreams; ++s) any[s] = V::zero_i();
  for (int64_t at = 0; at < part; at += kBytes) {
    MR_UNROLL for (int s = 0; s < kStreams; ++s) {
      const uint8_t* from = bytes + s * part + at;
      if (kIsAhead && at % 64 == 0) __builtin_prefetch(from + V::kBytesAhead);
      any[s] = V::or_i(any[s], V::load_i(from));
    }
  }
  MR_UNROLL for (int s = 0; s < kStreams; ++s) V::store_i(out + s * kBytes, any[s]);
}

template <class V>
constexpr MachineProbe make_probe() {
  constexpr int kDots = kProbeSteps * kProbeRows * kProbeVectors;
  return {.dot = {probe_dot<V, F32Dot<V>>, probe_dot<V, Int16Dot<V>>, probe_dot<V, Int8Dot<V>>},
          .macs = {kDots * F32Dot<V>::kMacs, kDots * Int16Dot<V>::kMacs, kDots * Int8Dot<V>::kMacs},
          .read = {probe_read<V, false>, probe_read<V, true>}};
}

// Of a tier that has dot products of bf16 pairs.
template <class V>
constexpr MachineProbe make_bf16_probe() {
  constexpr int kKind = static_cast<int>(DotKind::kBF16);
  MachineProbe probe = make_probe<V>();
  probe.dot[kKind] = probe_dot<V, Bf16Dot<V>, kBf16ProbeRows>;
  probe.macs[kKind] = kProbeSteps * kBf16ProbeRows * kProbeVectors * Bf16Dot<V>::kMacs;
  return probe;
}

}  // namespace
}  // namespace millrace::kernels
