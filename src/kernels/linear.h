#pragma once
// Matrix products of quantised weights: pack once at load, then multiply activation rows.
// LinearWeights is immutable after pack; quantise_row and linear may run on any thread.

#include <cstddef>
#include <cstdint>

#include "base/buffer.h"
#include "base/result.h"
#include "base/worker_pool.h"
#include "kernels/isa.h"
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
  // kInvalidArgument: the tensor is not a matrix; kCorrupt: its data is not as long as its shape
  // says; kUnsupported: n_in is not a multiple of the format's block.
  static Result<LinearWeights> pack(const TensorView& weight,
                                    Rounding rounding,
                                    WorkerPool& pool,
                                    std::byte* memory);
  // The same in memory of its own; kResourceExhausted when the system refuses it.
  static Result<LinearWeights> pack(const TensorView& weight, Rounding rounding, WorkerPool& pool);

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

// Bytes of the panels that a matrix is packed into, without looking at its values: for F16 the
// larger of the two forms, which differ when n_in is odd.
size_t packed_bytes(const TensorView& weight);

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
