#include "kernels/matrix_source_pack.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "kernels/linear.h"

namespace millrace::kernels {
namespace {

int64_t divided_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

template <class T>
void store_at(uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

// Of both kinds; n_bytes for row_bytes bytes a row.
template <class Matrix>
Result<void> check_codes(const Matrix& matrix, int64_t row_bytes) {
  const auto n_bytes = static_cast<int64_t>(matrix.codes.size());
  // Both factors are bounded by the bytes that exist, so the product cannot overflow.
  if (row_bytes > n_bytes || matrix.n_out > n_bytes / row_bytes ||
      matrix.n_out * row_bytes != n_bytes) {
    return fail(ErrorCode::kCorrupt,
                "[pack] {}: {} rows of {} codes do not take {} bytes",
                matrix.name,
                matrix.n_out,
                matrix.n_in,
                n_bytes);
  }
  return {};
}

Result<void> check_shape(std::string_view name, int64_t n_out, int64_t n_in) {
  if (n_in < 1 || n_out < 1) {
    return fail(ErrorCode::kInvalidArgument,
                "[pack] {}: expected a matrix, shape is {} x {}",
                name,
                n_out,
                n_in);
  }
  return {};
}

Result<void> check_row_order(const Fp8Matrix& matrix) {
  if (matrix.row_order.empty()) return {};
  if (std::ssize(matrix.row_order) != matrix.n_out) {
    return fail(ErrorCode::kInvalidArgument,
                "[pack] {}: the order of {} rows has {} entries",
                matrix.name,
                matrix.n_out,
                matrix.row_order.size());
  }
  for (const int64_t row : matrix.row_order) {
    if (row < 0 || row >= matrix.n_out) {
      return fail(ErrorCode::kInvalidArgument,
                  "[pack] {}: the order of its rows names row {} of {}",
                  matrix.name,
                  row,
                  matrix.n_out);
    }
  }
  return {};
}

int64_t scale_columns_of(const Fp8Matrix& matrix) {
  return divided_up(matrix.n_in, std::min(matrix.scale_columns, matrix.n_in));
}

// 16 bytes of codes, 32 k, as the four nibble lines of one row.
void store_nibbles(const std::byte* codes, int row, uint8_t* planes) {
  uint32_t quads[8];
  for (int quad = 0; quad < 8; ++quad) {
    const auto low = static_cast<uint32_t>(codes[2 * quad]);
    const auto high = static_cast<uint32_t>(codes[2 * quad + 1]);
    quads[quad] = (low & 15u) | low >> 4 << 8 | (high & 15u) << 16 | high >> 4 << 24;
  }
  for (int quad = 0; quad < 4; ++quad) {
    store_at(planes + (quad * kPanelRows + row) * 4, quads[quad] | quads[quad + 4] << 4);
  }
}

}  // namespace

Result<void> check_matrix(const Fp8Matrix& matrix) {
  if (auto checked = check_shape(matrix.name, matrix.n_out, matrix.n_in); !checked) return checked;
  if (matrix.scale_rows < 1 || matrix.scale_columns < 1) {
    return fail(ErrorCode::kInvalidArgument,
                "[pack] {}: scales of {} x {} values",
                matrix.name,
                matrix.scale_rows,
                matrix.scale_columns);
  }
  if (matrix.scale_columns < matrix.n_in && matrix.scale_columns % kActivationBlock != 0) {
    return fail(ErrorCode::kUnsupported,
                "[pack] {}: scales of {} columns, expected a multiple of {} or all {}",
                matrix.name,
                matrix.scale_columns,
                kActivationBlock,
                matrix.n_in);
  }
  if (auto checked = check_codes(matrix, matrix.n_in); !checked) return checked;
  const int64_t n_rows = divided_up(matrix.n_out, std::min(matrix.scale_rows, matrix.n_out));
  const int64_t n_columns = scale_columns_of(matrix);
  if (std::ssize(matrix.scales) != n_rows * n_columns) {
    return fail(ErrorCode::kCorrupt,
                "[pack] {}: expected {} x {} scales, found {}",
                matrix.name,
                n_rows,
                n_columns,
                matrix.scales.size());
  }
  return check_row_order(matrix);
}

Result<void> check_matrix(const Int4Matrix& matrix) {
  if (auto checked = check_shape(matrix.name, matrix.n_out, matrix.n_in); !checked) return checked;
  if (!int4_panel_format(matrix.group_size)) {
    return fail(ErrorCode::kUnsupported,
                "[pack] {}: groups of {} values, expected 32, 64 or 128",
                matrix.name,
                matrix.group_size);
  }
  if (matrix.n_in % matrix.group_size != 0) {
    return fail(ErrorCode::kUnsupported,
                "[pack] {}: rows of {} values are not a multiple of the {} values of a group",
                matrix.name,
                matrix.n_in,
                matrix.group_size);
  }
  if (auto checked = check_codes(matrix, matrix.n_in / 2); !checked) return checked;
  const int64_t n_groups = matrix.n_out * (matrix.n_in / matrix.group_size);
  if (std::ssize(matrix.scales) != n_groups || std::ssize(matrix.zeros) != n_groups) {
    return fail(ErrorCode::kCorrupt,
                "[pack] {}: expected {} scales and zero points, found {} and {}",
                matrix.name,
                n_groups,
                matrix.scales.size(),
                matrix.zeros.size());
  }
  return {};
}

// A code that is no number makes the scale of its row and block none, so that kernels need not
// look.
void pack_panel(const Fp8Matrix& matrix, int64_t first_row, std::byte* panel) {
  constexpr PanelInfo kInfo = panel_info(PanelFormat::kFP8_E4M3);
  constexpr auto kNan = std::numeric_limits<float>::quiet_NaN();
  const int64_t n_rows = std::min<int64_t>(kPanelRows, matrix.n_out - first_row);
  auto* to = reinterpret_cast<uint8_t*>(panel);
  for (int64_t k = 0; k < matrix.n_in; k += kInfo.block_k, to += kInfo.block_bytes) {
    const int64_t n_k = std::min<int64_t>(kInfo.block_k, matrix.n_in - k);
    for (int64_t row = 0; row < n_rows; ++row) {
      const int64_t source = matrix.row_order.empty()
                                 ? first_row + row
                                 : matrix.row_order[static_cast<size_t>(first_row + row)];
      const std::byte* codes = matrix.codes.data() + source * matrix.n_in + k;
      uint8_t* pairs = to + kInfo.header_bytes + 2 * row;
      bool has_nan = false;
      for (int64_t i = 0; i < n_k; ++i) {
        const auto code = static_cast<uint8_t>(codes[i]);
        pairs[i / 2 * (2 * kPanelRows) + i % 2] = code;
        has_nan |= (code & 0x7f) == 0x7f;
      }
      const int64_t scale =
          source / matrix.scale_rows * scale_columns_of(matrix) + k / matrix.scale_columns;
      store_at(to + 4 * row, has_nan ? kNan : matrix.scales[static_cast<size_t>(scale)]);
    }
  }
}

void pack_panel(const Int4Matrix& matrix, int64_t first_row, std::byte* panel) {
  const PanelInfo& info = panel_info(*int4_panel_format(matrix.group_size));
  const int64_t block_groups = info.block_k / matrix.group_size;
  const int64_t row_groups = matrix.n_in / matrix.group_size;
  const auto n_rows = static_cast<int>(std::min<int64_t>(kPanelRows, matrix.n_out - first_row));
  auto* to = reinterpret_cast<uint8_t*>(panel);
  for (int64_t k = 0; k < matrix.n_in; k += info.block_k, to += info.block_bytes) {
    const int64_t n_k = std::min<int64_t>(info.block_k, matrix.n_in - k);
    uint8_t* zeros = to + block_groups * 2 * kPanelRows;
    for (int row = 0; row < n_rows; ++row) {
      const int64_t source = first_row + row;
      for (int64_t g = 0; g < n_k / matrix.group_size; ++g) {
        const auto at = static_cast<size_t>(source * row_groups + k / matrix.group_size + g);
        store_at(to + 2 * (g * kPanelRows + row), matrix.scales[at]);
        zeros[g * kPanelRows + row] = matrix.zeros[at];
      }
      const std::byte* codes = matrix.codes.data() + (source * matrix.n_in + k) / 2;
      for (int64_t i = 0; i < n_k; i += 32) {
        uint8_t* planes = to + info.header_bytes + i / 32 * kQ4Planes.group_bytes();
        store_nibbles(codes + i / 2, row, planes);
      }
    }
  }
}

}  // namespace millrace::kernels
