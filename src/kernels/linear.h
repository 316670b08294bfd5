#pragma once
// Matrix products of quantised weights: pack once at load, then multiply activation rows.
// LinearWeights is immutable after pack; quantise_row and linear may run on any thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/buffer.h"
#include "base/result.h"
#include "base/worker_pool.h"
#include "kernels/isa.h"
#include "kernels/matrix_source.h"
#include "kernels/panel.h"
#include "tensor/tensor_view.h"

namespace millrace::kernels {

// What the rows of a matrix are made of on an instruction set.
ActivationKind activation_kind(Isa isa, PanelFormat format, Rounding rounding);

class LinearWeights {
 public:
  LinearWeights() = default;  // no rows

  // weight: [n_out rows, n_in]. Runs on all workers of the pool; the caller is worker 0. Every
  // value keeps the exact meaning it has in the file; `rounding` is that of the activations it will
  // meet. memory: packed_bytes(weight) zeroed bytes at a multiple of 64 that outlive the result.
  // kInvalidArgument: the tensor is not a matrix, or its rows are not in their order; kCorrupt: its
  // data is not as long as its shape says; kUnsupported: n_in is not a multiple of the format's
  // block.
  static Result<LinearWeights> pack(const TensorView& weight,
                                    Rounding rounding,
                                    WorkerPool& pool,
                                    std::byte* memory);
  // The same in memory of its own; kResourceExhausted when the system refuses it.
  static Result<LinearWeights> pack(const TensorView& weight, Rounding rounding, WorkerPool& pool);

  // The same from matrices that are no tensors of a GGUF file, as exactly. kInvalidArgument: no
  // matrix, or a row order of other rows; kCorrupt: codes, scales or zero points are not as many as
  // the shape says; kUnsupported: another group size, n_in not a multiple of it, or columns of a
  // scale that are neither a multiple of 128 nor all. A code that is not a number makes the results
  // of its row NaN, as does a scale.
  static Result<LinearWeights> pack(const Fp8Matrix& weight,
                                    Rounding rounding,
                                    WorkerPool& pool,
                                    std::byte* memory);
  static Result<LinearWeights> pack(const Fp8Matrix& weight, Rounding rounding, WorkerPool& pool);
  static Result<LinearWeights> pack(const Int4Matrix& weight,
                                    Rounding rounding,
                                    WorkerPool& pool,
                                    std::byte* memory);
  static Result<LinearWeights> pack(const Int4Matrix& weight, Rounding rounding, WorkerPool& pool);

  int64_t n_out() const { return n_out_; }
  int64_t n_in() const { return n_in_; }
  int64_t n_panels() const { return (n_out_ + kPanelRows - 1) / kPanelRows; }
  PanelFormat format() const { return format_; }
  Rounding rounding() const { return rounding_; }
  ActivationKind activation(Isa isa) const { return activation_kind(isa, format_, rounding_); }
  size_t bytes() const { return static_cast<size_t>(n_panels() * panel_bytes_); }
  int64_t panel_bytes() const { return panel_bytes_; }
  const std::byte* panels() const { return panels_; }

 private:
  // n_out rows, panel by panel through pack_one(panel, to).
  static LinearWeights pack_panels(PanelFormat format,
                                   Rounding rounding,
                                   int64_t n_out,
                                   int64_t n_in,
                                   WorkerPool& pool,
                                   std::byte* memory,
                                   const std::function<void(int64_t, std::byte*)>& pack_one);
  template <class Matrix>
  static Result<LinearWeights> pack_to_own(const Matrix& weight,
                                           Rounding rounding,
                                           WorkerPool& pool);

  PanelFormat format_ = PanelFormat::kF32;
  Rounding rounding_ = Rounding::kFine;
  int64_t n_out_ = 0;
  int64_t n_in_ = 0;
  int64_t panel_bytes_ = 0;
  const std::byte* panels_ = nullptr;
  Buffer own_;  // empty when the panels lie in memory of others
};

// The panel format that weights of a type are packed into. F16 becomes kBF16 with fine rounding, so
// that its activations stay kF32, when every value of the tensor is exactly representable there.
PanelFormat panel_format(DType dtype);
// Of an Fp8Matrix it is kFP8_E4M3, of an Int4Matrix this; none for other group sizes.
std::optional<PanelFormat> int4_panel_format(int64_t group_size);

// Bytes of the panels that a matrix is packed into, without looking at its values: for F16 the
// larger of the two forms, which differ when n_in is odd. Only the shape counts, and an Int4Matrix
// has a group size of int4_panel_format.
size_t packed_bytes(const TensorView& weight);
size_t packed_bytes(const Fp8Matrix& weight);
size_t packed_bytes(const Int4Matrix& weight);

// Bytes of one activation row: a multiple of 64, and an odd number of cache lines so that the same
// block of many rows does not fall into one cache set. Rows start at multiples of 64 bytes.
size_t activation_row_bytes(ActivationKind kind, int64_t n_in);

// Floats from one row of n to the next, for results of linear: an odd number of cache lines too.
int64_t result_stride(int64_t n);

// x: [n_in] -> row: activation_row_bytes(kind, n_in). A function of x alone. Non-finite inputs give
// NaN results in linear; a group whose largest magnitude is below 1e-33 counts as zero.
void quantise_row(Isa isa, ActivationKind kind, const float* x, int64_t n_in, void* row);

// The largest result of every row and panel, NaN where one of them is not a finite number:
// values[r * stride + panel]. No results: none are wanted.
struct PanelMaxima {
  float* values = nullptr;
  int64_t stride = 0;
};

// out[r * out_stride + n] = dot(W[n], row r) for every row and this worker's share of the panels.
// rows: [n_rows], by quantise_row of the kind weights.activation(isa), one behind the other.
// out: [n_rows, out_stride] floats, out_stride at least n_out. worker: 0 .. n_workers - 1.
// No barrier inside; workers write disjoint columns. A row's results do not depend on n_rows, its
// place among the rows, or n_workers, bit for bit.
void linear(Isa isa,
            const LinearWeights& weights,
            const void* rows,
            int64_t n_rows,
            float* out,
            int64_t out_stride,
            int worker,
            int n_workers,
            PanelMaxima maxima = {});

}  // namespace millrace::kernels
