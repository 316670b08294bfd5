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
//   kQ4_0           32  32 f16 scales, [4][32][4] nibbles                                       4.5
//   kQ4_K          256  32 f16 d, 32 f16 dmin, [8][32] low nibbles of (scale | min << 4),
//                       [4][32] their high bits, 8 x [4][32][4] nibbles                         4.5
//   kQ6_K          256  32 f16 d, [16][32] i8 scales, 8 x ([4][32][4] nibbles,
//                       [2][32][4] bit pairs)                                                6.5625
//   kGrouped8       32  [2][32] f32 scales, [2][32] f32 offsets, [8][32][4] u8 12
//
// Nibbles: byte (j, row, i) holds k = 4j + i in its low half and k = 4(j + 4) + i in its high half.
// Bit pairs: byte (p, row, i) holds, from bit 0 up, the high two bits of the quads 2p, 2p + 4,
// 2p + 1, 2p + 5. High bits of kQ4_K: byte (g, row) holds, from bit 0 up, scale and min of group g,
// scale and min of group g + 4. kGrouped8 means w = scale * code + offset, per 16 k.

#include <stdint.h>

namespace millrace::kernels {

inline constexpr int kPanelRows = 32;

enum class PanelFormat : uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_K, kQ6_K, kGrouped8 };
inline constexpr int kPanelFormats = 8;

struct PanelInfo {
  const char* name;
  int block_k;
  int block_bytes;  // of all 32 rows
};
inline constexpr PanelInfo kPanelInfo[kPanelFormats] = {
    {"F32", 1, 128},
    {"F16", 1, 64},
    {"BF16", 2, 128},
    {"Q8_0", 32, 1088},
    {"Q4_0", 32, 576},
    {"Q4_K", 256, 4608},
    {"Q6_K", 256, 6720},
    {"Grouped8", 32, 1536},
};

// Static per matrix, never per batch (docs/adr/0001-activation-planes.md).
enum class ActivationKind : uint8_t {
  kF32,        // as computed
  kInt8,       // 8 bits, one scale per 128 values
  kInt8Per32,  // 8 bits, one scale per 32 values
  kInt16,      // v = 254 * hi + lo with hi and lo in +-127, one scale per 128 values
};
inline constexpr int kActivationKinds = 4;

// How finely the activations of a matrix are rounded, where its format leaves a choice.
enum class Rounding : uint8_t { kCoarse, kFine };
inline constexpr int kRoundings = 2;

inline constexpr ActivationKind kPanelActivation[kPanelFormats][kRoundings] = {
    {ActivationKind::kF32, ActivationKind::kF32},
    {ActivationKind::kF32, ActivationKind::kF32},
    {ActivationKind::kF32, ActivationKind::kF32},
    {ActivationKind::kInt16, ActivationKind::kInt16},
    {ActivationKind::kInt8Per32, ActivationKind::kInt16},
    {ActivationKind::kInt8, ActivationKind::kInt16},
    {ActivationKind::kInt16, ActivationKind::kInt16},
    {ActivationKind::kInt16, ActivationKind::kInt16},
};

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

}  // namespace millrace::kernels
