#include "model/coded_weights.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/check.h"
#include "tensor/coded_matrix.h"

namespace millrace {
namespace {

using kernels::Fp8Matrix;
using kernels::Int4Matrix;

constexpr int64_t kWordCodes = 8;

uint32_t load_word(std::span<const std::byte> words, int64_t index) {
  uint32_t word;
  std::memcpy(&word, words.data() + index * int64_t{sizeof(word)}, sizeof(word));
  return word;
}

// Shape alone.
Fp8Matrix fp8_shape(const TensorView& matrix) {
  Fp8Matrix shape;
  shape.name = matrix.name;
  shape.n_out = matrix.shape[1];
  shape.n_in = matrix.shape[0];
  return shape;
}
Int4Matrix int4_shape(const TensorView& matrix) {
  Int4Matrix shape;
  shape.name = matrix.name;
  shape.n_out = matrix.shape[1];
  shape.n_in = matrix.shape[0];
  shape.group_size = matrix.coded->group_size;
  return shape;
}

// An INT4 matrix in the order of the kernels.
class Int4Rows {
 public:
  explicit Int4Rows(const TensorView& matrix)
      : matrix_(matrix), coded_(*matrix.coded), n_in_(matrix.shape[0]), n_out_(matrix.shape[1]) {}

  Result<void> fill(WorkerPool& pool) {
    auto memory = Buffer::try_allocate(static_cast<size_t>(n_out_ * n_in_ / 2));
    if (!memory) {
      return fail(memory.error().code, "[model] {}: {}", matrix_.name, memory.error().message);
    }
    codes_ = *std::move(memory);
    const int64_t n_groups = n_in_ / coded_.group_size;
    scales_.resize(static_cast<size_t>(n_out_ * n_groups));
    zeros_.resize(scales_.size());
    // Strips whose words fill a cache line, and whose rows are written while they are in the cache.
    constexpr int64_t kStrip = 16 * kWordCodes;
    const int64_t n_strips = (n_out_ + kStrip - 1) / kStrip;
    pool.run([&](int worker) {
      const Range own = share(n_strips, worker, pool.size());
      for (int64_t strip = own.begin; strip < own.end; ++strip) {
        const int64_t begin = strip * kStrip;
        const int64_t end = std::min(begin + kStrip, n_out_);
        if (coded_.layout == CodeLayout::kAwq) {
          fill_awq(begin, end);
        } else {
          fill_gptq(begin, end);
        }
        fill_groups(begin, end);
      }
    });
    return {};
  }

  Int4Matrix view() const {
    Int4Matrix view = int4_shape(matrix_);
    view.codes = codes_.bytes();
    view.scales = scales_;
    view.zeros = zeros_;
    return view;
  }

 private:
  // Where output n of the file belongs.
  int64_t row_of(int64_t n) const {
    const int64_t head_rows = matrix_.split_head_rows;
    if (head_rows == 0) return n;
    const int64_t i = n % head_rows;
    return n - i + i % (head_rows / 2) * 2 + i / (head_rows / 2);
  }
  std::byte* codes_of(int64_t n) { return codes_.data() + row_of(n) * (n_in_ / 2); }

  void fill_awq(int64_t begin, int64_t end) {
    const int64_t n_words = n_out_ / kWordCodes;
    for (int64_t k = 0; k < n_in_; k += 2) {
      for (int64_t word = begin / kWordCodes; word < end / kWordCodes; ++word) {
        const uint32_t even = load_word(matrix_.data, k * n_words + word);
        const uint32_t odd = load_word(matrix_.data, (k + 1) * n_words + word);
        for (int i = 0; i < kWordCodes; ++i) {
          codes_of(word * kWordCodes + kAwqOrder[i])[k / 2] =
              static_cast<std::byte>((even >> (4 * i) & 15u) | (odd >> (4 * i) & 15u) << 4);
        }
      }
    }
  }

  // A word is four bytes of a row as the kernels have it.
  void fill_gptq(int64_t begin, int64_t end) {
    for (int64_t word = 0; word < n_in_ / kWordCodes; ++word) {
      for (int64_t n = begin; n < end; ++n) {
        std::memcpy(codes_of(n) + word * 4, matrix_.data.data() + (word * n_out_ + n) * 4, 4);
      }
    }
  }

  void fill_groups(int64_t begin, int64_t end) {
    const int64_t n_groups = n_in_ / coded_.group_size;
    for (int64_t group = 0; group < n_groups; ++group) {
      for (int64_t n = begin; n < end; ++n) {
        const auto to = static_cast<size_t>(row_of(n) * n_groups + group);
        std::memcpy(&scales_[to], coded_.group_scales.data() + (group * n_out_ + n) * 2, 2);
      }
      for (int64_t word = begin / kWordCodes; word < end / kWordCodes; ++word) {
        const uint32_t zeros = load_word(coded_.group_zeros, group * (n_out_ / kWordCodes) + word) +
                               coded_.zero_offset;
        for (int i = 0; i < kWordCodes; ++i) {
          const int place = coded_.layout == CodeLayout::kAwq ? kAwqOrder[i] : i;
          const auto to = static_cast<size_t>(row_of(word * kWordCodes + place) * n_groups + group);
          zeros_[to] = static_cast<uint8_t>(zeros >> (4 * i) & 15u);
        }
      }
    }
  }

  const TensorView& matrix_;
  const CodedMatrix& coded_;
  int64_t n_in_;
  int64_t n_out_;
  Buffer codes_;
  std::vector<uint16_t> scales_;
  std::vector<uint8_t> zeros_;
};

}  // namespace

kernels::PanelFormat matrix_panel_format(const TensorView& matrix) {
  if (matrix.coded == nullptr) return kernels::panel_format(matrix.dtype);
  if (matrix.dtype == DType::kF8_E4M3) return kernels::PanelFormat::kFP8_E4M3;
  const auto format = kernels::int4_panel_format(matrix.coded->group_size);
  MR_CHECK(format.has_value(), "{} has groups of {}", matrix.name, matrix.coded->group_size);
  return *format;
}

size_t matrix_packed_bytes(const TensorView& matrix) {
  if (matrix.coded == nullptr) return kernels::packed_bytes(matrix);
  if (matrix.dtype == DType::kF8_E4M3) return kernels::packed_bytes(fp8_shape(matrix));
  return kernels::packed_bytes(int4_shape(matrix));
}

Result<kernels::LinearWeights> pack_coded(const TensorView& matrix,
                                          kernels::Rounding rounding,
                                          WorkerPool& pool,
                                          std::byte* memory) {
  MR_CHECK(matrix.coded != nullptr, "{} has no codes", matrix.name);
  if (matrix.dtype == DType::kF8_E4M3) {
    std::vector<int64_t> order;
    if (matrix.split_head_rows != 0) {
      for (int64_t r = 0; r < matrix.shape[1]; ++r) order.push_back(matrix.stored_row(r));
    }
    Fp8Matrix source = fp8_shape(matrix);
    source.codes = matrix.data;
    source.scales = matrix.coded->scales;
    source.scale_rows = matrix.coded->scale_rows;
    source.scale_columns = matrix.coded->scale_columns;
    source.row_order = order;
    return kernels::LinearWeights::pack(source, rounding, pool, memory);
  }
  Int4Rows rows(matrix);
  if (auto filled = rows.fill(pool); !filled) return propagate(filled);
  return kernels::LinearWeights::pack(rows.view(), rounding, pool, memory);
}

}  // namespace millrace
