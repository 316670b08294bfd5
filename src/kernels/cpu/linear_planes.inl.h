#pragma once
// Panels whose codes lie in planes of bits (panel.h), times 16-bit activations: all quantised types
// but Q8_0, with Q4_0 and Q4_K where the activations are to be rounded finely.

#include "kernels/cpu/inline.h"
#include "kernels/cpu/linear_driver.inl.h"
#include "kernels/cpu/linear_int16.inl.h"
#include "kernels/panel.h"

namespace millrace::kernels {
namespace {

// Moves the bits at kFrom of every byte to kTo; what comes in from the next byte is for a mask to
// remove.
template <class V, int kFrom, int kTo>
MR_INLINE typename V::I moved_bits(typename V::I word) {
  if constexpr (kFrom < kTo) {
    return V::template shift_left<kTo - kFrom>(word);
  } else if constexpr (kFrom > kTo) {
    return V::template shift_right<kFrom - kTo>(word);
  } else {
    return word;
  }
}

// 128 k of codes in planes, and where unpack leaves them as bytes.
template <int kGroup, bool kHasOffsets>
struct PlaneBlock : ByteBlock<kGroup, kHasOffsets> {
  const uint8_t* planes;  // of 32 k at planes + group * plane_bytes
  int64_t plane_bytes;
  alignas(64) uint8_t unpacked[kActivationBlock * kPanelRows];
};

// As BlockReader, with the codes from the planes.
template <class V, Planes kPlanes, int kGroup>
struct PlaneReader : BlockReader<V, kGroup> {
  template <int kStep, int kQuad, class Block>
  MR_INLINE static typename V::I load(const Block& block, int group, int lane, int v) {
    constexpr int kAt = kStep * (kGroup / 4) + kQuad;  // of eight quads
    const uint8_t* from = block.planes + group * block.plane_bytes + 4 * lane;
    auto code = V::zero_i();
    if constexpr (kPlanes.has_nibbles) {
      const auto nibbles = load_line<kAt % 4, kAt / 4 == 0>(from, v);
      code = V::and_i(moved_bits<V, kAt / 4 * 4, 0>(nibbles), V::set1_i(0x0f0f0f0f));
    }
    if constexpr (kPlanes.has_pairs) {
      constexpr int kTo = kPlanes.pair_bit();
      constexpr int kBit = 4 * (kAt % 2) + 2 * (kAt / 4);
      constexpr int kLine = kPlanes.pair_line() + kAt % 4 / 2;
      const auto pairs = load_line<kLine, kBit == 0>(from, v);
      const auto mask = V::set1_i(0x03030303 << kTo);
      code = V::or_i(code, V::and_i(moved_bits<V, kBit, kTo>(pairs), mask));
    }
    if constexpr (kPlanes.has_bits) {
      constexpr int kTo = kPlanes.single_bit();
      const auto bits = load_line<kPlanes.single_line(), kAt == 0>(from, v);
      const auto mask = V::set1_i(0x01010101 << kTo);
      code = V::or_i(code, V::and_i(moved_bits<V, kAt, kTo>(bits), mask));
    }
    return code;
  }

 private:
  // One word a row. The first to read a line asks for one that comes later.
  template <int kLine, bool kIsFirst>
  MR_INLINE static typename V::I load_line(const uint8_t* from, int v) {
    const uint8_t* line = from + kLine * (4 * kPanelRows);
    if constexpr (kIsFirst) prefetch_codes<V, V::kPlanesAhead>(line, v);
    return V::load_i(line);
  }
};

// With scales, and offsets, of a group as f16 right in front of its planes.
template <class V, Planes kPlanes, int kHeader>
struct Plane32Reader : PlaneReader<V, kPlanes, 32> {
  template <class Block>
  MR_INLINE static typename V::F scale(const Block& block, int group, int lane) {
    return V::load_f16(block.planes + group * block.plane_bytes - kHeader + 2 * lane);
  }
  template <class Block>
  MR_INLINE static typename V::F offset(const Block& block, int group, int lane) {
    return V::load_f16(block.planes + group * block.plane_bytes + 2 * (lane - kPanelRows));
  }
};

template <class V,
          Planes kPlanes,
          int kGroup,
          int kShift,
          bool kHasOffsets,
          class DirectReader = PlaneReader<V, kPlanes, kGroup>>
struct PlanePanel : Int16Tile<V, kGroup, kShift, kHasOffsets, DirectReader> {
  using Block = PlaneBlock<kGroup, kHasOffsets>;
  static constexpr bool kUnpacks = true;

  MR_INLINE static void unpack(Block& block) { unpack_codes(block); }

 protected:
  MR_INLINE static void unpack_codes(Block& block) {
    for (int group = 0; group < block.n_groups; ++group) {
      for (int lane = 0; lane < kPanelRows; lane += V::kWidth) {
        unpack_quads<0>(block, group, lane);
      }
    }
  }
  MR_INLINE static void point_at(const uint8_t* planes,
                                 int64_t plane_bytes,
                                 int n_groups,
                                 Block& block) {
    block.planes = planes;
    block.plane_bytes = plane_bytes;
    block.n_groups = n_groups;
    block.codes = block.unpacked;
    block.group_bytes = 32 * kPanelRows;
  }

 private:
  template <int kQuad>
  MR_INLINE static void unpack_quads(Block& block, int group, int lane) {
    uint8_t* to = block.unpacked + group * block.group_bytes;
    V::store_i(to + kQuad * (4 * kPanelRows) + 4 * lane,
               PlaneReader<V, kPlanes, 32>::template load<0, kQuad>(block, group, lane, 0));
    if constexpr (kQuad < 7) {
      unpack_quads<kQuad + 1>(block, group, lane);
    }
  }
};

// Of the f16 values in front of the planes of 32 k.
constexpr int plane32_header(bool has_offsets) {
  return (has_offsets ? 4 : 2) * kPanelRows;
}

// Blocks of 32 k that begin with f16 scales, and offsets if the type has them. kShift: as
// Int16Tile.
template <class V, PanelFormat kFormat, Planes kPlanes, int kShift, bool kHasOffsets>
struct Plane32Panel : PlanePanel<V,
                                 kPlanes,
                                 32,
                                 kShift,
                                 kHasOffsets,
                                 Plane32Reader<V, kPlanes, plane32_header(kHasOffsets)>> {
  using Block = PlaneBlock<32, kHasOffsets>;
  using Reader = Plane32Reader<V, kPlanes, plane32_header(kHasOffsets)>;

  MR_INLINE static void prepare(const uint8_t* panel, int64_t k, int n_k, Block& block) {
    constexpr int kBytes = kPanelInfo[static_cast<int>(kFormat)].block_bytes;
    constexpr int kHeader = plane32_header(kHasOffsets);
    static_assert(kBytes == kHeader + kPlanes.group_bytes());
    const uint8_t* from = panel + k / 32 * kBytes;
    Plane32Panel::point_at(from + kHeader, kBytes, n_k / 32, block);
    for (int group = 0; group < block.n_groups; ++group) {
      prefetch_header<V::kPlanesAhead, kHeader>(from + group * kBytes);
    }
  }
  MR_INLINE static void unpack(Block& block) {
    Plane32Panel::unpack_codes(block);
    for (int group = 0; group < block.n_groups; ++group) {
      for (int lane = 0; lane < kPanelRows; lane += V::kWidth) {
        V::store(&block.scales[group][lane], Reader::scale(block, group, lane));
        if constexpr (kHasOffsets) {
          V::store(&block.offsets[group][lane], Reader::offset(block, group, lane));
        }
      }
    }
  }
};

// Blocks of 256 k with 6-bit scales and minimums per 32: Q4_K, Q5_K.
template <class V, PanelFormat kFormat, Planes kPlanes>
struct ScaleMinPanel : PlanePanel<V, kPlanes, 32, 0, true> {
  using Block = PlaneBlock<32, true>;

  MR_INLINE static void prepare(const uint8_t* panel, int64_t k, int /*n_k*/, Block& block) {
    constexpr int kBytes = kPanelInfo[static_cast<int>(kFormat)].block_bytes;
    constexpr int kGroupBytes = kPlanes.group_bytes();
    constexpr int kHeader = 16 * kPanelRows;
    static_assert(kBytes == kHeader + 8 * kGroupBytes);
    const uint8_t* from = panel + k / 256 * kBytes;
    const int half = static_cast<int>(k / 128 % 2);
    ScaleMinPanel::point_at(from + kHeader + half * 4 * kGroupBytes, kGroupBytes, 4, block);
    const uint8_t* low = from + 4 * kPanelRows + half * 4 * kPanelRows;
    const uint8_t* high = from + 12 * kPanelRows;
    if (half == 0) {
      prefetch_header<V::kPlanesAhead, kHeader>(from);
      prepare_scales<0>(from, low, high, block);
    } else {
      prepare_scales<4>(from, low, high, block);
    }
  }

 private:
  // w = d * scale * code - dmin * min; both products are exact in float.
  template <int kBit>
  MR_INLINE static void prepare_scales(const uint8_t* d,
                                       const uint8_t* low,
                                       const uint8_t* high,
                                       Block& block) {
    for (int row = 0; row < kPanelRows; row += V::kWidth) {
      const auto d_row = V::load_f16(d + 2 * row);
      const auto minus_dmin = V::sub(V::zero(), V::load_f16(d + 2 * (kPanelRows + row)));
      MR_UNROLL for (int g = 0; g < 4; ++g) {
        const auto scale_min = scale_min_6<V, kBit>(low, high, g * kPanelRows + row);
        V::store(&block.scales[g][row], V::mul(d_row, V::to_float(scale_min.scale)));
        V::store(&block.offsets[g][row], V::mul(minus_dmin, V::to_float(scale_min.min)));
      }
    }
  }
};

// Blocks of 256 k with signed scales per 16: Q3_K, Q6_K.
template <class V, PanelFormat kFormat, Planes kPlanes, int kShift>
struct SignedScalePanel : PlanePanel<V, kPlanes, 16, kShift, false> {
  using Block = PlaneBlock<16, false>;

  MR_INLINE static void prepare(const uint8_t* panel, int64_t k, int /*n_k*/, Block& block) {
    constexpr int kBytes = kPanelInfo[static_cast<int>(kFormat)].block_bytes;
    constexpr int kGroupBytes = kPlanes.group_bytes();
    constexpr int kHeader = 18 * kPanelRows;
    static_assert(kBytes == kHeader + 8 * kGroupBytes);
    const uint8_t* from = panel + k / 256 * kBytes;
    const int half = static_cast<int>(k / 128 % 2);
    SignedScalePanel::point_at(from + kHeader + half * 4 * kGroupBytes, kGroupBytes, 4, block);
    if (half == 0) prefetch_header<V::kPlanesAhead, kHeader>(from);
    const uint8_t* scales = from + 2 * kPanelRows + half * 8 * kPanelRows;
    for (int row = 0; row < kPanelRows; row += V::kWidth) {
      const auto d = V::load_f16(from + 2 * row);
      for (int g = 0; g < 8; ++g) {
        const auto scale = V::to_float(V::load_i8(scales + g * kPanelRows + row));
        V::store(&block.scales[g][row], V::mul(d, scale));  // exact: a small integer times f16
      }
    }
  }
};

// Blocks of 256 k with 4-bit scales and minimums per 16.
template <class V>
struct Q2_KPanel : PlanePanel<V, kQ2_KPlanes, 16, 0, true> {
  using Block = PlaneBlock<16, true>;

  MR_INLINE static void prepare(const uint8_t* panel, int64_t k, int /*n_k*/, Block& block) {
    constexpr int kBytes = kPanelInfo[static_cast<int>(PanelFormat::kQ2_K)].block_bytes;
    constexpr int kGroupBytes = kQ2_KPlanes.group_bytes();
    constexpr int kHeader = 20 * kPanelRows;
    static_assert(kBytes == kHeader + 8 * kGroupBytes);
    const uint8_t* from = panel + k / 256 * kBytes;
    const int half = static_cast<int>(k / 128 % 2);
    Q2_KPanel::point_at(from + kHeader + half * 4 * kGroupBytes, kGroupBytes, 4, block);
    if (half == 0) prefetch_header<V::kPlanesAhead, kHeader>(from);
    const uint8_t* scales = from + 4 * kPanelRows + half * 8 * kPanelRows;
    const auto nibble = V::set1_i(15);
    for (int row = 0; row < kPanelRows; row += V::kWidth) {
      const auto d = V::load_f16(from + 2 * row);
      const auto minus_dmin = V::sub(V::zero(), V::load_f16(from + 2 * (kPanelRows + row)));
      for (int g = 0; g < 8; ++g) {
        const auto both = V::load_u8(scales + g * kPanelRows + row);
        const auto scale = V::to_float(V::and_i(both, nibble));
        const auto min = V::to_float(V::template shift_right<4>(both));
        V::store(&block.scales[g][row], V::mul(d, scale));
        V::store(&block.offsets[g][row], V::mul(minus_dmin, min));
      }
    }
  }
};

template <class V>
using FineQ4_0Panel = Plane32Panel<V, PanelFormat::kQ4_0, kQ4Planes, 3, false>;
template <class V>
using Q4_1Panel = Plane32Panel<V, PanelFormat::kQ4_1, kQ4Planes, 0, true>;
template <class V>
using Q5_0Panel = Plane32Panel<V, PanelFormat::kQ5_0, kQ5Planes, 4, false>;
template <class V>
using Q5_1Panel = Plane32Panel<V, PanelFormat::kQ5_1, kQ5Planes, 0, true>;
template <class V>
using Q3_KPanel = SignedScalePanel<V, PanelFormat::kQ3_K, kQ3_KPlanes, 2>;
template <class V>
using FineQ4_KPanel = ScaleMinPanel<V, PanelFormat::kQ4_K, kQ4Planes>;
template <class V>
using Q5_KPanel = ScaleMinPanel<V, PanelFormat::kQ5_K, kQ5Planes>;
template <class V>
using Q6_KPanel = SignedScalePanel<V, PanelFormat::kQ6_K, kQ6_KPlanes, 5>;

}  // namespace
}  // namespace millrace::kernels
