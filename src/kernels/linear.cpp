#include "kernels/linear.h"

#include "base/check.h"
#include "kernels/kernel_table.h"

namespace millrace::kernels {
namespace {

size_t record_bytes(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kF32:
      return sizeof(FloatRecord);
    case ActivationKind::kInt8:
      return sizeof(Int8Block);
    case ActivationKind::kInt8Per32:
      return sizeof(Int8Per32Block);
    case ActivationKind::kInt16:
      return sizeof(Int16Block);
    case ActivationKind::kBF16:
      return sizeof(Bf16Record);
  }
  MR_CHECK(false, "activation kind {}", static_cast<int>(kind));
}

}  // namespace

ActivationKind activation_kind(Isa isa, PanelFormat format, Rounding rounding) {
  return kernel_table(isa).activation.of(format, rounding);
}

size_t activation_row_bytes(ActivationKind kind, int64_t n_in) {
  MR_CHECK(n_in >= 0, "n_in {}", n_in);
  constexpr size_t kLine = 64;
  const size_t n_blocks = (static_cast<size_t>(n_in) + kActivationBlock - 1) / kActivationBlock;
  const size_t n_lines = (n_blocks * record_bytes(kind) + kLine - 1) / kLine;
  return (n_lines | 1) * kLine;
}

int64_t result_stride(int64_t n) {
  constexpr int64_t kLine = 64 / sizeof(float);
  return ((n + kLine - 1) / kLine | 1) * kLine;
}

void quantise_row(Isa isa, ActivationKind kind, const float* x, int64_t n_in, void* row) {
  kernel_table(isa).quantise[static_cast<int>(kind)](x, n_in, row);
}

void linear(Isa isa,
            const LinearWeights& weights,
            const void* rows,
            int64_t n_rows,
            float* out,
            int64_t out_stride,
            int worker,
            int n_workers,
            PanelMaxima maxima) {
  MR_CHECK(n_rows == 0 || out_stride >= weights.n_out(),
           "out_stride {} n_out {}",
           out_stride,
           weights.n_out());
  const Range panels = share(weights.n_panels(), worker, n_workers);
  const LinearJob job{
      .panels = reinterpret_cast<const uint8_t*>(weights.panels()),
      .panel_bytes = weights.panel_bytes(),
      .first_panel = panels.begin,
      .end_panel = panels.end,
      .n_in = weights.n_in(),
      .n_out = weights.n_out(),
      .rows = static_cast<const uint8_t*>(rows),
      .row_bytes =
          static_cast<int64_t>(activation_row_bytes(weights.activation(isa), weights.n_in())),
      .n_rows = n_rows,
      .out = out,
      .out_stride = out_stride,
      .maxima = maxima.values,
      .maxima_stride = maxima.stride,
  };
  const auto& kernels = kernel_table(isa).linear[static_cast<int>(weights.format())];
  kernels[static_cast<int>(weights.rounding())](job);
}

}  // namespace millrace::kernels
