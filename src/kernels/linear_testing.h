#pragma once
// What the tests and the benchmark of the linear kernels share: made-up tensors, rows, references.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/kernel_table.h"
#include "kernels/linear.h"
#include "tensor/half.h"
#include "tensor/tensor_view.h"

namespace millrace::kernels {

// A matrix [n_out, n_in] with its bytes.
struct TestTensor {
  DType dtype;
  int64_t n_out;
  int64_t n_in;
  std::vector<std::byte> bytes;

  TensorView view() const {
    return {
        .name = "test", .dtype = dtype, .n_dims = 2, .shape = {n_in, n_out, 1, 1}, .data = bytes};
  }
  std::vector<float> decoded() const {
    std::vector<float> values(static_cast<size_t>(n_out * n_in));
    dtype_info(dtype).decode(bytes.data(), values.data(), n_out * n_in);
    return values;
  }
};

inline std::vector<float> gaussian(int64_t n, uint32_t seed, float deviation = 1.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) {
    value = normal(generator);
  }
  return values;
}

inline TestTensor empty_tensor(DType dtype, int64_t n_out, int64_t n_in) {
  const size_t n_bytes = static_cast<size_t>(n_out * dtype_info(dtype).row_bytes(n_in));
  return {dtype, n_out, n_in, std::vector<std::byte>(n_bytes)};
}

inline TestTensor encoded_tensor(DType dtype, int64_t n_out, int64_t n_in, uint32_t seed) {
  TestTensor tensor = empty_tensor(dtype, n_out, n_in);
  const std::vector<float> values = gaussian(n_out * n_in, seed, 0.05f);
  dtype_info(dtype).encode(values.data(), tensor.bytes.data(), n_out * n_in);
  return tensor;
}

// Where a block keeps its f16 factors, -1: it has fewer.
struct HalfOffsets {
  int first;
  int second;
};
inline HalfOffsets half_offsets(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ8_0:
      return {0, -1};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ2_K:
      return {80, 82};
    case DType::kQ3_K:
      return {108, -1};
    case DType::kQ6_K:
      return {208, -1};
    default:
      return {-1, -1};
  }
}

inline void set_half(TestTensor& tensor, int64_t block, int offset, uint16_t half) {
  const int block_bytes = dtype_info(tensor.dtype).block_bytes;
  std::memcpy(tensor.bytes.data() + block * block_bytes + offset, &half, sizeof(half));
}

// Blocks of a quantised type with every bit of codes and small scales random.
inline TestTensor random_bits_tensor(DType dtype, int64_t n_out, int64_t n_in, uint32_t seed) {
  TestTensor tensor = empty_tensor(dtype, n_out, n_in);
  std::mt19937 generator(seed);
  for (std::byte& byte : tensor.bytes) {
    byte = static_cast<std::byte>(generator() & 255u);
  }
  std::uniform_real_distribution<float> factor(-0.01f, 0.01f);
  const HalfOffsets offsets = half_offsets(dtype);
  const int64_t n_blocks = n_out * n_in / dtype_info(dtype).block_size;
  for (int64_t block = 0; block < n_blocks; ++block) {
    for (const int offset : {offsets.first, offsets.second}) {
      if (offset >= 0) {
        set_half(tensor, block, offset, f32_to_f16(factor(generator)));
      }
    }
  }
  return tensor;
}

// n_rows quantised rows, 64-byte aligned.
class ActivationRows {
 public:
  ActivationRows(const KernelTable& table,
                 ActivationKind kind,
                 const std::vector<float>& x,
                 int64_t n_rows)
      : kind_(kind),
        row_bytes_(static_cast<int64_t>(
            activation_row_bytes(kind, n_rows == 0 ? 0 : std::ssize(x) / n_rows))),
        buffer_(Buffer::allocate(static_cast<size_t>(row_bytes_ * n_rows + 64))) {
    const int64_t n_in = n_rows == 0 ? 0 : std::ssize(x) / n_rows;
    for (int64_t r = 0; r < n_rows; ++r) {
      table.quantise[static_cast<int>(kind)](x.data() + r * n_in, n_in, row(r));
    }
  }
  // Of the kind that the table's kernel for these weights takes.
  ActivationRows(const KernelTable& table,
                 const LinearWeights& weights,
                 const std::vector<float>& x,
                 int64_t n_rows)
      : ActivationRows(
            table, table.activation.of(weights.format(), weights.rounding()), x, n_rows) {}

  ActivationKind kind() const { return kind_; }
  std::byte* row(int64_t r) { return buffer_.data() + r * row_bytes_; }
  const std::byte* row(int64_t r) const { return buffer_.data() + r * row_bytes_; }
  int64_t row_bytes() const { return row_bytes_; }

 private:
  ActivationKind kind_;
  int64_t row_bytes_;
  Buffer buffer_;
};

// maxima: as PanelMaxima for the results out [n_rows, n_out].
inline bool are_maxima(const std::vector<float>& maxima,
                       const std::vector<float>& out,
                       int64_t n_out) {
  const int64_t n_panels = (n_out + kPanelRows - 1) / kPanelRows;
  for (int64_t i = 0; i < std::ssize(maxima); ++i) {
    const int64_t first = i % n_panels * kPanelRows;
    const auto begin = out.begin() + i / n_panels * n_out + first;
    const auto end = begin + std::min<int64_t>(kPanelRows, n_out - first);
    const bool is_finite = std::all_of(begin, end, [](float x) { return std::isfinite(x); });
    const float maximum = maxima[static_cast<size_t>(i)];
    if (is_finite ? maximum != *std::max_element(begin, end) : !std::isnan(maximum)) {
      return false;
    }
  }
  return true;
}

// The kernel of one tier on all panels, with a check of the maxima.
inline std::vector<float> multiply(const KernelTable& table,
                                   const LinearWeights& weights,
                                   const ActivationRows& rows,
                                   int64_t first_row,
                                   int64_t n_rows) {
  std::vector<float> out(static_cast<size_t>(n_rows * weights.n_out()), -7.0f);
  std::vector<float> maxima(static_cast<size_t>(n_rows * weights.n_panels()), -7.0f);
  const LinearJob job{
      .panels = reinterpret_cast<const uint8_t*>(weights.panels()),
      .panel_bytes = weights.panel_bytes(),
      .first_panel = 0,
      .end_panel = weights.n_panels(),
      .n_in = weights.n_in(),
      .n_out = weights.n_out(),
      .rows = reinterpret_cast<const uint8_t*>(rows.row(first_row)),
      .row_bytes = rows.row_bytes(),
      .n_rows = n_rows,
      .out = out.data(),
      .out_stride = weights.n_out(),
      .maxima = maxima.data(),
      .maxima_stride = weights.n_panels(),
  };
  table.linear[static_cast<int>(weights.format())][static_cast<int>(weights.rounding())](job);
  EXPECT_TRUE(are_maxima(maxima, out, weights.n_out())) << table.vector_floats << " lanes";
  return out;
}

// The values that a quantised row stands for.
inline std::vector<double> row_values(ActivationKind kind, const std::byte* row, int64_t n_in) {
  std::vector<double> values(static_cast<size_t>(n_in));
  for (int64_t k = 0; k < n_in; ++k) {
    const int64_t b = k / kActivationBlock;
    const int64_t i = k % kActivationBlock;
    double& value = values[static_cast<size_t>(k)];
    switch (kind) {
      case ActivationKind::kF32:
        value = reinterpret_cast<const float*>(row)[k];
        break;
      case ActivationKind::kInt8: {
        const auto& block = reinterpret_cast<const Int8Block*>(row)[b];
        value = double{block.scale} * block.values[i];
        break;
      }
      case ActivationKind::kInt8Per32: {
        const auto& block = reinterpret_cast<const Int8Per32Block*>(row)[b];
        value = double{block.scales[i / 32]} * block.values[i];
        break;
      }
      case ActivationKind::kInt16: {
        const auto& block = reinterpret_cast<const Int16Block*>(row)[b];
        constexpr int kPlace[4] = {0, 2, 1, 3};
        value = double{block.scale} * block.values[i / 4 * 4 + kPlace[i % 4]];
        break;
      }
      case ActivationKind::kBF16:
        value = bf16_to_f32(reinterpret_cast<const uint16_t*>(row)[k]);
        break;
    }
  }
  return values;
}

// [n_rows, n_out] in double from decoded weights.
inline std::vector<double> reference(const TestTensor& tensor,
                                     const std::vector<std::vector<double>>& rows) {
  const std::vector<float> weights = tensor.decoded();
  std::vector<double> out;
  for (const std::vector<double>& row : rows) {
    for (int64_t n = 0; n < tensor.n_out; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < tensor.n_in; ++k) {
        sum +=
            double{weights[static_cast<size_t>(n * tensor.n_in + k)]} * row[static_cast<size_t>(k)];
      }
      out.push_back(sum);
    }
  }
  return out;
}

// Squared error over squared reference; 0 for equal vectors, also for all zeros.
template <class A, class B>
double nmse(const std::vector<A>& expected, const std::vector<B>& actual) {
  MR_CHECK(expected.size() == actual.size());
  double error = 0;
  double power = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = double{expected[i]} - double{actual[i]};
    error += difference * difference;
    power += double{expected[i]} * double{expected[i]};
  }
  return error == 0 ? 0 : error / power;
}

}  // namespace millrace::kernels
