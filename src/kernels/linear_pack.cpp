// Repacking of tensor rows into panels, in parallel over panels.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "kernels/linear.h"
#include "kernels/panel_pack.h"
#include "tensor/half.h"

namespace millrace::kernels {
namespace {

Result<void> check_matrix(const TensorView& weight) {
  const DTypeInfo& info = dtype_info(weight.dtype);
  const int64_t n_in = weight.shape[0];
  const int64_t n_out = weight.shape[1];
  if (n_in < 1 || n_out < 1 || weight.shape[2] != 1 || weight.shape[3] != 1) {
    return fail(ErrorCode::kInvalidArgument,
                "[pack] {}: expected a matrix, shape is {} x {} x {} x {}",
                weight.name,
                weight.shape[0],
                weight.shape[1],
                weight.shape[2],
                weight.shape[3]);
  }
  if (n_in % info.block_size != 0) {
    return fail(ErrorCode::kUnsupported,
                "[pack] {}: rows of {} values are not a multiple of the {} values of a {} block",
                weight.name,
                n_in,
                info.block_size,
                info.name);
  }
  // Both factors are bounded by the bytes that exist, so the product cannot overflow.
  const auto n_bytes = static_cast<int64_t>(weight.data.size());
  const int64_t n_blocks = n_in / info.block_size;
  if (n_blocks > n_bytes || n_out > n_bytes / (n_blocks * info.block_bytes) ||
      n_out * n_blocks * info.block_bytes != n_bytes) {
    return fail(ErrorCode::kCorrupt,
                "[pack] {}: {} rows of {} {} values do not take {} bytes",
                weight.name,
                n_out,
                n_in,
                info.name,
                n_bytes);
  }
  return {};
}

// True when all values of an F16 tensor have at most bf16's 8 significant bits.
bool fits_bf16(const TensorView& weight, WorkerPool& pool) {
  std::atomic<bool> fits{true};
  pool.run([&](int worker) {
    constexpr int64_t kChunk = 4096;
    const Range range = share(weight.n_values(), worker, pool.size());
    for (int64_t begin = range.begin; begin < range.end && fits.load(std::memory_order_relaxed);
         begin += kChunk) {
      const int64_t n = std::min(kChunk, range.end - begin);
      if (!halves_fit_bf16(weight.data.data() + 2 * begin, n)) {
        fits.store(false, std::memory_order_relaxed);
      }
    }
  });
  return fits.load();
}

// Of one panel over all of K.
int64_t bytes_of_panel(PanelFormat format, int64_t n_in) {
  const PanelInfo& info = kPanelInfo[static_cast<int>(format)];
  return (n_in + info.block_k - 1) / info.block_k * info.block_bytes;
}

}  // namespace

PanelFormat panel_format(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return PanelFormat::kF32;
    case DType::kF16:
      return PanelFormat::kF16;
    case DType::kBF16:
      return PanelFormat::kBF16;
    case DType::kQ4_0:
      return PanelFormat::kQ4_0;
    case DType::kQ4_1:
      return PanelFormat::kQ4_1;
    case DType::kQ5_0:
      return PanelFormat::kQ5_0;
    case DType::kQ5_1:
      return PanelFormat::kQ5_1;
    case DType::kQ8_0:
      return PanelFormat::kQ8_0;
    case DType::kQ2_K:
      return PanelFormat::kQ2_K;
    case DType::kQ3_K:
      return PanelFormat::kQ3_K;
    case DType::kQ4_K:
      return PanelFormat::kQ4_K;
    case DType::kQ5_K:
      return PanelFormat::kQ5_K;
    case DType::kQ6_K:
      return PanelFormat::kQ6_K;
  }
  MR_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

size_t packed_bytes(const TensorView& weight) {
  int64_t bytes = bytes_of_panel(panel_format(weight.dtype), weight.shape[0]);
  if (weight.dtype == DType::kF16) {
    bytes = std::max(bytes, bytes_of_panel(PanelFormat::kBF16, weight.shape[0]));
  }
  return static_cast<size_t>((weight.shape[1] + kPanelRows - 1) / kPanelRows * bytes);
}

Result<LinearWeights> LinearWeights::pack(const TensorView& weight,
                                          Rounding rounding,
                                          WorkerPool& pool,
                                          std::byte* memory) {
  if (const Result<void> checked = check_matrix(weight); !checked) {
    return propagate(checked);
  }
  LinearWeights packed;
  packed.rounding_ = rounding;
  packed.format_ = panel_format(weight.dtype);
  if (weight.dtype == DType::kF16 && fits_bf16(weight, pool)) {
    packed.format_ = PanelFormat::kBF16;
    packed.rounding_ = Rounding::kFine;
  }
  packed.n_in_ = weight.shape[0];
  packed.n_out_ = weight.shape[1];
  packed.panel_bytes_ = bytes_of_panel(packed.format_, packed.n_in_);
  packed.panels_ = memory;

  const PackPanel pack_panel = panel_packer(weight.dtype, packed.format_);
  pool.run([&](int worker) {
    const Range panels = share(packed.n_panels(), worker, pool.size());
    for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
      const int64_t row = panel * kPanelRows;
      const PanelSource source{
          .rows = weight.row(row),
          .row_bytes = weight.row_bytes(),
          .n_rows = static_cast<int>(std::min<int64_t>(kPanelRows, packed.n_out_ - row)),
          .n_in = packed.n_in_,
      };
      pack_panel(source, memory + panel * packed.panel_bytes_);
    }
  });
  return packed;
}

Result<LinearWeights> LinearWeights::pack(const TensorView& weight,
                                          Rounding rounding,
                                          WorkerPool& pool) {
  if (const Result<void> checked = check_matrix(weight); !checked) {
    return propagate(checked);
  }
  auto memory = Buffer::try_allocate(packed_bytes(weight));
  if (!memory) {
    return fail(memory.error().code, "[pack] {}: {}", weight.name, memory.error().message);
  }
  auto packed = pack(weight, rounding, pool, memory->data());
  if (packed) packed->own_ = *std::move(memory);
  return packed;
}

}  // namespace millrace::kernels
