// Repacking of tensor rows into panels, in parallel over panels.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "kernels/linear.h"
#include "kernels/matrix_source_pack.h"
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
  if (weight.split_head_rows != 0) {
    return fail(
        ErrorCode::kInvalidArgument, "[pack] {}: expected rows in their order", weight.name);
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
  const PanelInfo& info = panel_info(format);
  const int64_t n_whole = n_in / info.block_k;
  const int64_t rest = n_in % info.block_k;
  if (rest == 0) return n_whole * info.block_bytes;
  if (info.step_k == 0) return (n_whole + 1) * info.block_bytes;
  const int64_t n_steps = (rest + info.step_k - 1) / info.step_k;
  const int64_t step_bytes = (info.block_bytes - info.header_bytes) / (info.block_k / info.step_k);
  return n_whole * info.block_bytes + info.header_bytes + n_steps * step_bytes;
}

// Of all panels.
size_t packed_bytes(int64_t bytes_of_panel, int64_t n_out) {
  return static_cast<size_t>((n_out + kPanelRows - 1) / kPanelRows * bytes_of_panel);
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
    case DType::kF8_E4M3:
    case DType::kInt4:
      break;  // these come as an Fp8Matrix or an Int4Matrix
  }
  MR_CHECK(false, "dtype {}", static_cast<int>(dtype));
}

std::optional<PanelFormat> int4_panel_format(int64_t group_size) {
  switch (group_size) {
    case 32:
      return PanelFormat::kInt4G32;
    case 64:
      return PanelFormat::kInt4G64;
    case 128:
      return PanelFormat::kInt4G128;
    default:
      return std::nullopt;
  }
}

size_t packed_bytes(const TensorView& weight) {
  int64_t bytes = bytes_of_panel(panel_format(weight.dtype), weight.shape[0]);
  if (weight.dtype == DType::kF16) {
    bytes = std::max(bytes, bytes_of_panel(PanelFormat::kBF16, weight.shape[0]));
  }
  return packed_bytes(bytes, weight.shape[1]);
}

size_t packed_bytes(const Fp8Matrix& weight) {
  return packed_bytes(bytes_of_panel(PanelFormat::kFP8_E4M3, weight.n_in), weight.n_out);
}

size_t packed_bytes(const Int4Matrix& weight) {
  const std::optional<PanelFormat> format = int4_panel_format(weight.group_size);
  MR_CHECK(format.has_value(), "groups of {}", weight.group_size);
  return packed_bytes(bytes_of_panel(*format, weight.n_in), weight.n_out);
}

LinearWeights LinearWeights::pack_panels(PanelFormat format,
                                         Rounding rounding,
                                         int64_t n_out,
                                         int64_t n_in,
                                         WorkerPool& pool,
                                         std::byte* memory,
                                         const std::function<void(int64_t, std::byte*)>& pack_one) {
  LinearWeights packed;
  packed.rounding_ = rounding;
  packed.format_ = format;
  packed.n_in_ = n_in;
  packed.n_out_ = n_out;
  packed.panel_bytes_ = bytes_of_panel(format, n_in);
  packed.panels_ = memory;
  pool.run([&](int worker) {
    const Range panels = share(packed.n_panels(), worker, pool.size());
    for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
      pack_one(panel, memory + panel * packed.panel_bytes_);
    }
  });
  return packed;
}

Result<LinearWeights> LinearWeights::pack(const TensorView& weight,
                                          Rounding rounding,
                                          WorkerPool& pool,
                                          std::byte* memory) {
  if (const Result<void> checked = check_matrix(weight); !checked) {
    return propagate(checked);
  }
  PanelFormat format = panel_format(weight.dtype);
  if (weight.dtype == DType::kF16 && fits_bf16(weight, pool)) {
    format = PanelFormat::kBF16;
    rounding = Rounding::kFine;
  }
  const PackPanel packer = panel_packer(weight.dtype, format);
  const int64_t n_in = weight.shape[0];
  const int64_t n_out = weight.shape[1];
  return pack_panels(
      format, rounding, n_out, n_in, pool, memory, [&](int64_t panel, std::byte* to) {
        const int64_t row = panel * kPanelRows;
        const PanelSource source{
            .rows = weight.row(row),
            .row_bytes = weight.row_bytes(),
            .n_rows = static_cast<int>(std::min<int64_t>(kPanelRows, n_out - row)),
            .n_in = n_in,
        };
        packer(source, to);
      });
}

Result<LinearWeights> LinearWeights::pack(const Fp8Matrix& weight,
                                          Rounding rounding,
                                          WorkerPool& pool,
                                          std::byte* memory) {
  if (const Result<void> checked = check_matrix(weight); !checked) {
    return propagate(checked);
  }
  return pack_panels(
      PanelFormat::kFP8_E4M3,
      rounding,
      weight.n_out,
      weight.n_in,
      pool,
      memory,
      [&](int64_t panel, std::byte* to) { pack_panel(weight, panel * kPanelRows, to); });
}

Result<LinearWeights> LinearWeights::pack(const Int4Matrix& weight,
                                          Rounding rounding,
                                          WorkerPool& pool,
                                          std::byte* memory) {
  if (const Result<void> checked = check_matrix(weight); !checked) {
    return propagate(checked);
  }
  return pack_panels(
      *int4_panel_format(weight.group_size),
      rounding,
      weight.n_out,
      weight.n_in,
      pool,
      memory,
      [&](int64_t panel, std::byte* to) { pack_panel(weight, panel * kPanelRows, to); });
}

template <class Matrix>
Result<LinearWeights> LinearWeights::pack_to_own(const Matrix& weight,
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

Result<LinearWeights> LinearWeights::pack(const TensorView& weight,
                                          Rounding rounding,
                                          WorkerPool& pool) {
  return pack_to_own(weight, rounding, pool);
}

Result<LinearWeights> LinearWeights::pack(const Fp8Matrix& weight,
                                          Rounding rounding,
                                          WorkerPool& pool) {
  return pack_to_own(weight, rounding, pool);
}

Result<LinearWeights> LinearWeights::pack(const Int4Matrix& weight,
                                          Rounding rounding,
                                          WorkerPool& pool) {
  return pack_to_own(weight, rounding, pool);
}

}  // namespace millrace::kernels
