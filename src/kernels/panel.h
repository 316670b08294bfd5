#pragma once
// How packed weights and quantised activation rows lie in memory. Shared by the packer and the
// instruction-set units, so only C headers here.
//
// A panel is 32 output rows (shorter last panels are padded with zero rows), contiguous over K.
// Codes are stored in quads, [K/4][32 rows][4], so that one 32-bit broadcast of four activations
// meets one register of rows, and a result is never summed across lanes. Per panel and block:
//
//   format     block k  content of one block, in order                                  bits/weight
//   kF32             1  32 f32                                                                   32
//   kF16             1  32 f16                                                                   16
//   kBF16            2  [32][2] bf16 (an odd K is padded with zeros)                             16
//   kQ8_0           32  32 f16 scales, [8][32][4] u8 = q + 128                                  8.5
//   kQ4_0           32  32 f16 scales, planes                                                   4.5
//   kQ4_1           32  32 f16 scales, 32 f16 offsets, planes                                     5
//   kQ5_0           32  as kQ4_0                                                                5.5
//   kQ5_1           32  as kQ4_1                                                                  6
//   kQ2_K          256  32 f16 d, 32 f16 dmin, [16][32] scale | min << 4, 8 x planes          2.625
//   kQ3_K          256  32 f16 d, [16][32] i8 scales, 8 x planes                             3.5625
//   kQ4_K          256  32 f16 d, 32 f16 dmin, [8][32] low nibbles of (scale | min << 4),
//                       [4][32] their high bits, 8 x planes                                     4.5
//   kQ5_K          256  as kQ4_K                                                                5.5
//   kQ6_K          256  as kQ3_K                                                             6.5625
//   kFP8_E4M3      128  32 f32 scales, [64][32][2] e4m3                                        8.25
//   kInt4G32       128  4 x 32 f16 scales, [4][32] u8 zero points, 4 x planes                  4.75
//   kInt4G64       128  2 x 32 f16 scales, [2][32] u8 zero points, 4 x planes                 4.375
//   kInt4G128      256  2 x 32 f16 scales, [2][32] u8 zero points, 8 x planes                4.1875
//
// High bits of kQ4_K and kQ5_K: byte (g, row) holds, from bit 0 up, scale and min of group g, scale
// and min of group g + 4. All but kQ3_K (in the file 3.4375) and the last four (docs/adr/0006) take
// the bits per weight of the file. The last block of those four need not be whole: it has all of
// its scales, and codes as far as K goes.
//
// Codes of fewer than 8 bits lie in planes, for every 32 k those of nibbles, pairs and single bits
// that the type has, in this order and from the low bits of a code up:
//   nibbles [4][32][4]  byte (j, row, i) holds k = 4j + i in its low half, k = 4(j + 4) + i above
//   pairs   [2][32][4]  byte (p, row, i) holds, from bit 0 up, the quads 2p, 2p + 4, 2p + 1, 2p + 5
//   bits    [32][4]     byte (row, i) holds k = 4j + i in bit j

#include <stdint.h>

namespace millrace::kernels {

inline constexpr int kPanelRows = 32;

enum class PanelFormat : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kFP8_E4M3,
  kInt4G32,
  kInt4G64,
  kInt4G128,
};
inline constexpr int kPanelFormats = 17;

struct PanelInfo {
  const char* name;
  int block_k;
  int block_bytes;  // of all 32 rows
  // Where the last block may have fewer codes: the bytes in front of them, and the k of which there
  // are whole multiples. 0: every block is whole.
  int header_bytes = 0;
  int step_k = 0;
};
inline constexpr PanelInfo kPanelInfo[kPanelFormats] = {
    {"F32", 1, 128},
    {"F16", 1, 64},
    {"BF16", 2, 128},
    {"Q8_0", 32, 1088},
    {"Q4_0", 32, 576},
    {"Q4_1", 32, 640},
    {"Q5_0", 32, 704},
    {"Q5_1", 32, 768},
    {"Q2_K", 256, 2688},
    {"Q3_K", 256, 3648},
    {"Q4_K", 256, 4608},
    {"Q5_K", 256, 5632},
    {"Q6_K", 256, 6720},
    {"FP8_E4M3", 128, 4224, 128, 2},
    {"INT4_G32", 128, 2432, 384, 32},
    {"INT4_G64", 128, 2240, 192, 32},
    {"INT4_G128", 256, 4288, 192, 32},
};
constexpr const PanelInfo& panel_info(PanelFormat format) {
  return kPanelInfo[static_cast<int>(format)];
}

// The planes of 32 k of codes. A line of a plane is one 32-bit word for each of the 32 rows.
struct Planes {
  bool has_nibbles, has_pairs, has_bits;

  constexpr int pair_line() const { return has_nibbles ? 4 : 0; }
  constexpr int single_line() const { return pair_line() + (has_pairs ? 2 : 0); }
  constexpr int group_bytes() const {
    return (single_line() + (has_bits ? 1 : 0)) * 4 * kPanelRows;
  }
  // Where a plane's lowest bit is in the code.
  constexpr int pair_bit() const { return has_nibbles ? 4 : 0; }
  constexpr int single_bit() const { return pair_bit() + (has_pairs ? 2 : 0); }
};
inline constexpr Planes kQ4Planes{true, false, false};
inline constexpr Planes kQ5Planes{true, false, true};
inline constexpr Planes kQ2_KPlanes{false, true, false};
inline constexpr Planes kQ3_KPlanes{false, true, true};
inline constexpr Planes kQ6_KPlanes{true, true, false};

// Static per matrix, never per batch (docs/adr/0001-activation-planes.md).
enum class ActivationKind : uint8_t {
  kF32,        // as computed
  kInt8,       // 8 bits, one scale per 128 values
  kInt8Per32,  // 8 bits, one scale per 32 values
  kInt16,      // v = 254 * hi + lo with hi and lo in +-127, one scale per 128 values
  kBF16,       // rounded to bf16
};
inline constexpr int kActivationKinds = 5;

// How finely the activations of a matrix are rounded, where its format leaves a choice.
enum class Rounding : uint8_t { kCoarse, kFine };
inline constexpr int kRoundings = 2;

// The activations that matrices meet, the same for all but a few instruction sets (KernelTable).
struct PanelActivation {
  ActivationKind kinds[kPanelFormats][kRoundings];

  constexpr ActivationKind of(PanelFormat format, Rounding rounding) const {
    return kinds[static_cast<int>(format)][static_cast<int>(rounding)];
  }
};
inline constexpr PanelActivation kPanelActivation = {{
    {ActivationKind::kF32, ActivationKind::kF32},          // F32
    {ActivationKind::kF32, ActivationKind::kF32},          // F16
    {ActivationKind::kF32, ActivationKind::kF32},          // BF16
    {ActivationKind::kInt16, ActivationKind::kInt16},      // Q8_0
    {ActivationKind::kInt8Per32, ActivationKind::kInt16},  // Q4_0
    {ActivationKind::kInt16, ActivationKind::kInt16},      // Q4_1
    {ActivationKind::kInt16, ActivationKind::kInt16},      // Q5_0
    {ActivationKind::kInt16, ActivationKind::kInt16},      // Q5_1
    {ActivationKind::kInt16, ActivationKind::kInt16},      // Q2_K
    {ActivationKind::kInt16, ActivationKind::kInt16},      // Q3_K
    {ActivationKind::kInt8, ActivationKind::kInt16},       // Q4_K
    {ActivationKind::kInt16, ActivationKind::kInt16},      // Q5_K
    {ActivationKind::kInt16, ActivationKind::kInt16},      // Q6_K
    {ActivationKind::kF32, ActivationKind::kF32},          // FP8_E4M3
    {ActivationKind::kInt8, ActivationKind::kInt16},       // INT4_G32
    {ActivationKind::kInt8, ActivationKind::kInt16},       // INT4_G64
    {ActivationKind::kInt8, ActivationKind::kInt16},       // INT4_G128
}};

// Integer activation rows are arrays of these records, one per 128 values of K; what lies beyond
// K is zero. a = scale * value. A record with a non-finite input has NaN scales and zero values.
inline constexpr int kActivationBlock = 128;

struct Int8Block {
  int8_t values[128];
  float scale;
  int16_t sums[4];  // of values, per 32
  int32_t padding;
};
struct Int8Per32Block {
  int8_t values[128];
  float scales[4];
  int32_t sums[4];  // of values, per 32
};
struct Int16Block {
  int16_t values[128];  // each quad in the order 0 2 1 3: even and odd bytes of a code register
  float scale;
  int32_t padding[3];
  int32_t minus_sums16[8];  // of values, per 16
  int32_t minus_sums32[4];  // of values, per 32
};
static_assert(sizeof(Int8Block) == 144 && sizeof(Int8Per32Block) == 160 &&
              sizeof(Int16Block) == 320);

// Of kF32 and kBF16 rows, which are plain values in the order of K.
struct FloatRecord {
  float values[kActivationBlock];
};
struct Bf16Record {
  uint16_t values[kActivationBlock];
};

}  // namespace millrace::kernels
