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

// What a test matrix is made of: a type of GGUF files, or one of kernels/matrix_source.h.
struct WeightType {
  enum class Kind : uint8_t { kTensor, kFp8, kInt4 };
  Kind kind = Kind::kTensor;
  DType dtype = DType::kF32;  // of kTensor
  int group_size = 0;         // of kInt4

  WeightType(DType type) : dtype(type) {}
  static WeightType fp8() {
    WeightType type(DType::kF32);
    type.kind = Kind::kFp8;
    return type;
  }
  static WeightType int4(int group_size) {
    WeightType type(DType::kF32);
    type.kind = Kind::kInt4;
    type.group_size = group_size;
    return type;
  }

  bool is_tensor() const { return kind == Kind::kTensor; }
  std::string name() const {
    return is_tensor() ? dtype_info(dtype).name : panel_info(format()).name;
  }
  PanelFormat format() const {
    if (is_tensor()) return panel_format(dtype);
    return kind == Kind::kFp8 ? PanelFormat::kFP8_E4M3 : *int4_panel_format(group_size);
  }
  // Rows are multiples of so many values.
  int block_size() const {
    if (is_tensor()) return dtype_info(dtype).block_size;
    return kind == Kind::kFp8 ? 1 : group_size;
  }
};

inline std::vector<WeightType> all_weight_types() {
  std::vector<WeightType> types;
  for (const DTypeInfo& info : all_dtypes()) types.emplace_back(info.dtype);
  types.push_back(WeightType::fp8());
  for (const int group_size : {32, 64, 128}) types.push_back(WeightType::int4(group_size));
  return types;
}

// A matrix [n_out, n_in] with its bytes.
struct TestTensor {
  WeightType type;
  int64_t n_out;
  int64_t n_in;
  std::vector<std::byte> bytes = {};  // of the tensor, or the codes
  // Of kFp8:
  std::vector<float> fp8_scales = {};
  int64_t scale_rows = 1;
  int64_t scale_columns = 1;
  // Of kInt4:
  std::vector<uint16_t> int4_scales = {};
  std::vector<uint8_t> zeros = {};

  TensorView view() const {
    return {.name = "test",
            .dtype = type.dtype,
            .n_dims = 2,
            .shape = {n_in, n_out, 1, 1},
            .data = bytes};
  }
  Fp8Matrix fp8() const {
    return {.name = "test",
            .n_out = n_out,
            .n_in = n_in,
            .codes = bytes,
            .scales = fp8_scales,
            .scale_rows = scale_rows,
            .scale_columns = scale_columns};
  }
  Int4Matrix int4() const {
    return {.name = "test",
            .n_out = n_out,
            .n_in = n_in,
            .group_size = type.group_size,
            .codes = bytes,
            .scales = int4_scales,
            .zeros = zeros};
  }
  Result<LinearWeights> pack(Rounding rounding, WorkerPool& pool) const {
    if (type.is_tensor()) return LinearWeights::pack(view(), rounding, pool);
    if (type.kind == WeightType::Kind::kFp8) return LinearWeights::pack(fp8(), rounding, pool);
    return LinearWeights::pack(int4(), rounding, pool);
  }

  std::vector<double> decoded() const {
    const auto n_values = static_cast<size_t>(n_out * n_in);
    if (type.is_tensor()) {
      std::vector<float> values(n_values);
      dtype_info(type.dtype).decode(bytes.data(), values.data(), n_out * n_in);
      return {values.begin(), values.end()};
    }
    std::vector<double> values;
    for (size_t i = 0; i < n_values; ++i) {
      values.push_back(type.kind == WeightType::Kind::kFp8 ? fp8_value(i) : int4_value(i));
    }
    return values;
  }

 private:
  double fp8_value(size_t i) const {
    const int64_t row = static_cast<int64_t>(i) / n_in / scale_rows;
    const int64_t column = static_cast<int64_t>(i) % n_in / scale_columns;
    const int64_t n_columns = (n_in + scale_columns - 1) / scale_columns;
    return double{fp8_scales[static_cast<size_t>(row * n_columns + column)]} *
           e4m3_to_f32(static_cast<uint8_t>(bytes[i]));
  }
  double int4_value(size_t i) const {
    const size_t group = i / static_cast<size_t>(type.group_size);
    const int code = static_cast<int>(bytes[i / 2]) >> (4 * (i % 2)) & 15;
    return double{f16_to_f32(int4_scales[group])} * (code - zeros[group]);
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

// fp8 matrices have scales per 128 x 128.
inline TestTensor empty_tensor(WeightType type, int64_t n_out, int64_t n_in) {
  TestTensor tensor{.type = type, .n_out = n_out, .n_in = n_in};
  if (type.is_tensor()) {
    tensor.bytes.resize(static_cast<size_t>(n_out * dtype_info(type.dtype).row_bytes(n_in)));
  } else if (type.kind == WeightType::Kind::kFp8) {
    tensor.bytes.resize(static_cast<size_t>(n_out * n_in));
    tensor.scale_rows = tensor.scale_columns = 128;
    tensor.fp8_scales.resize(static_cast<size_t>((n_out + 127) / 128 * ((n_in + 127) / 128)));
  } else {
    tensor.bytes.resize(static_cast<size_t>(n_out * n_in / 2));
    tensor.int4_scales.resize(static_cast<size_t>(n_out * n_in / type.group_size));
    tensor.zeros.resize(tensor.int4_scales.size());
  }
  return tensor;
}

inline void encode_fp8(const std::vector<float>& values, TestTensor& tensor) {
  std::fill(tensor.fp8_scales.begin(), tensor.fp8_scales.end(), 0.003f);
  for (size_t i = 0; i < values.size(); ++i) {
    tensor.bytes[i] = static_cast<std::byte>(f32_to_e4m3(values[i] / 0.003f));
  }
}

inline void encode_int4(const std::vector<float>& values, TestTensor& tensor) {
  const auto group_size = static_cast<size_t>(tensor.type.group_size);
  for (size_t group = 0; group < tensor.zeros.size(); ++group) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(group * group_size);
    const auto [least, most] = std::minmax_element(first, first + tensor.type.group_size);
    tensor.int4_scales[group] = f32_to_f16((*most - *least) / 15);
    const float scale = f16_to_f32(tensor.int4_scales[group]);
    const float zero = std::round(-*least / scale);
    tensor.zeros[group] = static_cast<uint8_t>(std::clamp(zero, 0.0f, 16.0f));
    for (size_t i = group * group_size; i < (group + 1) * group_size; ++i) {
      const float code = std::round(values[i] / scale) + tensor.zeros[group];
      const auto bits = static_cast<unsigned>(std::clamp(code, 0.0f, 15.0f));
      tensor.bytes[i / 2] |= static_cast<std::byte>(bits << (4 * (i % 2)));
    }
  }
}

inline TestTensor encoded_tensor(WeightType type, int64_t n_out, int64_t n_in, uint32_t seed) {
  TestTensor tensor = empty_tensor(type, n_out, n_in);
  const std::vector<float> values = gaussian(n_out * n_in, seed, 0.05f);
  if (type.is_tensor()) {
    dtype_info(type.dtype).encode(values.data(), tensor.bytes.data(), n_out * n_in);
  } else if (type.kind == WeightType::Kind::kFp8) {
    encode_fp8(values, tensor);
  } else {
    encode_int4(values, tensor);
  }
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
  const int block_bytes = dtype_info(tensor.type.dtype).block_bytes;
  std::memcpy(tensor.bytes.data() + block * block_bytes + offset, &half, sizeof(half));
}

// Blocks of a quantised type with every bit of codes and small scales random; no code is a NaN.
inline TestTensor random_bits_tensor(WeightType type, int64_t n_out, int64_t n_in, uint32_t seed) {
  TestTensor tensor = empty_tensor(type, n_out, n_in);
  std::mt19937 generator(seed);
  for (std::byte& byte : tensor.bytes) {
    byte = static_cast<std::byte>(generator() & 255u);
  }
  std::uniform_real_distribution<float> factor(-0.01f, 0.01f);
  if (type.is_tensor()) {
    const HalfOffsets offsets = half_offsets(type.dtype);
    const int64_t n_blocks = n_out * n_in / dtype_info(type.dtype).block_size;
    for (int64_t block = 0; block < n_blocks; ++block) {
      for (const int offset : {offsets.first, offsets.second}) {
        if (offset >= 0) {
          set_half(tensor, block, offset, f32_to_f16(factor(generator)));
        }
      }
    }
  } else if (type.kind == WeightType::Kind::kFp8) {
    for (std::byte& code : tensor.bytes) {
      if ((code & std::byte{0x7f}) == std::byte{0x7f}) code ^= std::byte{1};
    }
    for (float& scale : tensor.fp8_scales) scale = factor(generator);
  } else {
    for (uint16_t& scale : tensor.int4_scales) scale = f32_to_f16(factor(generator));
    for (uint8_t& zero : tensor.zeros) zero = static_cast<uint8_t>(generator() & 255u);
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
  const std::vector<double> weights = tensor.decoded();
  std::vector<double> out;
  for (const std::vector<double>& row : rows) {
    for (int64_t n = 0; n < tensor.n_out; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < tensor.n_in; ++k) {
        sum += weights[static_cast<size_t>(n * tensor.n_in + k)] * row[static_cast<size_t>(k)];
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
