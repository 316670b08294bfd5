#pragma once
// The loops of a matrix product that every weight format shares.
//
// A format is a struct over an instruction set V:
//   Activation                      the record of one 128-k block of a row
//   Block                           128 k of one panel made ready: codes and scales of 32 rows
//   prepare(panel, k, n_k, block)   fills a Block from the panel bytes for k .. k + n_k
//   kUnpacks, unpack(block)         leaves codes as bytes and scales as floats in the block, where
//                                   the panel has them otherwise
//   tile<kVectors, kRows, kDirect>  sums[row][lane] += over the block, for kVectors registers of
//                                   panel rows by kRows activation rows; direct: unpacks weights in
//                                   registers, else reads what unpack() left, once for all tiles
//
// The order of the sums of one (output row, activation row) pair is that of k alone: the tile
// shape and the blocking of rows below only choose which pairs are computed next to each other.

#include "kernels/cpu/inline.h"
#include "kernels/kernel_table.h"

namespace millrace::kernels {
namespace {

// Activation rows of one pass over the panels: their blocks should stay in the L2 cache.
constexpr int kMaxPassRows = 96;
constexpr int64_t kPassBytes = 256 << 10;

// From more tiles on than this, a block is unpacked once for all of them.
constexpr int kDirectTiles = 3;

// Panel bytes are asked for V::kBytesAhead, those of formats that have to be unpacked
// V::kPlanesAhead before they are read. The processor's own prefetch runs ahead only of reads in
// the order of the panel, and too little of those of a tile that computes much.

// At the first register v of a tile that reads a cache line.
template <class V, int kAhead>
MR_INLINE void prefetch_codes(const uint8_t* codes, int v) {
  if (v * 4 * V::kWidth % 64 == 0) {
    __builtin_prefetch(codes + kAhead);
  }
}

// What lies in front of the codes of a block.
template <int kAhead, int kBytes>
MR_INLINE void prefetch_header(const uint8_t* header) {
  MR_UNROLL for (int at = 0; at < kBytes; at += 64) {
    __builtin_prefetch(header + at + kAhead);
  }
}

// Registers of panel rows in a tile of kRows (up to V::kTileRows) activation rows.
template <int kRows>
constexpr int kTileVectors = kRows <= 2 ? 4 : 2;

// Where a tile reads and writes: activation row r at rows + r * row_bytes, already at the block's
// record; sums of row r at sums + r * kPanelRows.
struct TileRows {
  const uint8_t* rows;
  int64_t row_bytes;
  float* sums;
};

template <class Record>
MR_INLINE const Record& record(const TileRows& tile, int row) {
  return *reinterpret_cast<const Record*>(tile.rows + row * tile.row_bytes);
}

// One register of the 6-bit scales and minimums of a Q4_K group: their low nibbles at low + at,
// their high bits from bit kBit on at high + at.
template <class V>
struct ScaleMins {
  typename V::I scale, min;
};
template <class V, int kBit>
MR_INLINE ScaleMins<V> scale_min_6(const uint8_t* low, const uint8_t* high, int at) {
  const auto nibble = V::set1_i(15);
  const auto two_bits = V::set1_i(0x30);
  const auto lows = V::load_u8(low + at);
  const auto highs =
      V::template shift_left<4>(V::template shift_right<kBit>(V::load_u8(high + at)));
  return {V::or_i(V::and_i(lows, nibble), V::and_i(highs, two_bits)),
          V::or_i(V::template shift_right<4>(lows),
                  V::and_i(V::template shift_right<2>(highs), two_bits))};
}

template <class V, class Format, int kRows, bool kDirect>
MR_INLINE void tile_panel(const typename Format::Block& block, const TileRows& tile) {
  constexpr int kRegisters = kPanelRows / V::kWidth;
  constexpr int kVectors = kTileVectors<kRows> < kRegisters ? kTileVectors<kRows> : kRegisters;
  for (int v = 0; v < kRegisters; v += kVectors) {
    Format::template tile<kVectors, kRows, kDirect>(block, v * V::kWidth, tile);
  }
}

template <class V, class Format, int kRows, bool kDirect>
void tile_at_most(const typename Format::Block& block, const TileRows& tile, int n_rows) {
  if (n_rows == kRows) {
    tile_panel<V, Format, kRows, kDirect>(block, tile);
  } else if constexpr (kRows > 1) {
    tile_at_most<V, Format, kRows - 1, kDirect>(block, tile, n_rows);
  }
}

// Tiles of about the same size: one of few rows takes nearly as long as a full one.
template <class V, class Format, bool kDirect>
MR_INLINE void tile_evenly(const typename Format::Block& block, TileRows tile, int n_rows) {
  for (int n_tiles = (n_rows + V::kTileRows - 1) / V::kTileRows; n_tiles > 0; --n_tiles) {
    const int n = (n_rows + n_tiles - 1) / n_tiles;
    tile_at_most<V, Format, V::kTileRows, kDirect>(block, tile, n);
    tile.rows += n * tile.row_bytes;
    tile.sums += n * kPanelRows;
    n_rows -= n;
  }
}

template <class V, class Format>
MR_INLINE void tile_rows(typename Format::Block& block, const TileRows& tile, int n_rows) {
  if constexpr (Format::kUnpacks) {
    if (n_rows > kDirectTiles * V::kTileRows) {
      Format::unpack(block);
      tile_evenly<V, Format, false>(block, tile, n_rows);
      return;
    }
  }
  tile_evenly<V, Format, true>(block, tile, n_rows);
}

// The largest of n results; NaN if one of them is not a finite number.
template <class V>
MR_INLINE float largest_result(const float* x, int n) {
  if (n < kPanelRows) {
    float largest = x[0];
    float poison = 0;  // x * 0 is 0, or NaN
    for (int i = 0; i < n; ++i) {
      largest = x[i] > largest ? x[i] : largest;
      poison += x[i] * 0.0f;
    }
    return largest + poison;
  }
  auto largest = V::load(x);
  auto poison = V::mul(largest, V::zero());
  MR_UNROLL for (int i = V::kWidth; i < kPanelRows; i += V::kWidth) {
    const auto values = V::load(x + i);
    largest = V::max(largest, values);
    poison = V::add(poison, V::mul(values, V::zero()));
  }
  return V::max_lane(largest) + V::sum(poison);
}

// n_rows <= kMaxPassRows activation rows by one panel.
template <class V, class Format>
void multiply_panel(const LinearJob& job, int64_t panel, int64_t row, int n_rows) {
  const int64_t n = panel * kPanelRows;
  alignas(64) float sums[kMaxPassRows * kPanelRows];
  for (int r = 0; r < n_rows; ++r) {
    // Rows of results lie far apart: what is not asked for before is waited for when it is written.
    const float* out = job.out + (row + r) * job.out_stride + n;
    MR_UNROLL for (int i = 0; i < kPanelRows; i += 16) __builtin_prefetch(out + i, 1);
    MR_UNROLL for (int i = 0; i < kPanelRows; i += V::kWidth) {
      V::store(sums + r * kPanelRows + i, V::zero());
    }
  }
  typename Format::Block block;
  const uint8_t* records = job.rows + row * job.row_bytes;
  for (int64_t k = 0; k < job.n_in; k += kActivationBlock) {
    const int64_t left = job.n_in - k;
    const int n_k = static_cast<int>(left < kActivationBlock ? left : kActivationBlock);
    Format::prepare(job.panels + panel * job.panel_bytes, k, n_k, block);
    tile_rows<V, Format>(block, {records, job.row_bytes, sums}, n_rows);
    records += sizeof(typename Format::Activation);
  }
  const int n_valid = static_cast<int>(job.n_out - n < kPanelRows ? job.n_out - n : kPanelRows);
  for (int r = 0; r < n_rows; ++r) {
    float* out = job.out + (row + r) * job.out_stride + n;
    const float* from = sums + r * kPanelRows;
    int i = 0;
    for (; i + V::kWidth <= n_valid; i += V::kWidth) {
      V::store(out + i, V::load(from + i));
    }
    if (i < n_valid) {
      V::store_partial(out + i, V::load(from + i), n_valid - i);
    }
    if (job.maxima != nullptr) {
      job.maxima[(row + r) * job.maxima_stride + panel] = largest_result<V>(from, n_valid);
    }
  }
}

template <class V, class Format>
void linear_panels(const LinearJob& job) {
  constexpr int kMost = V::kTileRows;
  const int64_t fit = kPassBytes / job.row_bytes / kMost * kMost;
  const int64_t at_least = fit < 4 * kMost ? 4 * kMost : fit;
  const int64_t pass_rows = at_least < kMaxPassRows ? at_least : kMaxPassRows;
  for (int64_t row = 0; row < job.n_rows; row += pass_rows) {
    const int64_t left = job.n_rows - row;
    const int n_rows = static_cast<int>(left < pass_rows ? left : pass_rows);
    for (int64_t panel = job.first_panel; panel < job.end_panel; ++panel) {
      multiply_panel<V, Format>(job, panel, row, n_rows);
    }
  }
}

}  // namespace
}  // namespace millrace::kernels
