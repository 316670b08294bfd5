#pragma once
// The functions that exist once per instruction set. Immutable; any thread.
// Included by the instruction-set units, so only C headers and plain types here.

#include <stdint.h>

#include "kernels/attention.h"
#include "kernels/kv_page.h"
#include "kernels/panel.h"

namespace millrace::kernels {

enum class Isa : uint8_t;  // kernels/isa.h

// out[r * out_stride + n] = dot(weight row n, activation row r) for n in the given panels.
struct LinearJob {
  const uint8_t* panels;  // first byte of panel 0
  int64_t panel_bytes;
  int64_t first_panel, end_panel;
  int64_t n_in, n_out;
  const uint8_t* rows;  // [n_rows] activation rows of the kind that the format wants
  int64_t row_bytes;
  int64_t n_rows;
  float* out;
  int64_t out_stride;       // floats
  float* maxima = nullptr;  // see PanelMaxima; null: not wanted
  int64_t maxima_stride = 0;
};

struct ResidualNorm;  // norm.h
struct HeadRotation;  // rope.h

struct KernelTable {
  int vector_floats;  // floats per register
  // Which rows a kernel of `linear` takes.
  PanelActivation activation;
  // Indexed by PanelFormat and Rounding.
  void (*linear[kPanelFormats][kRoundings])(const LinearJob& job);
  // Indexed by ActivationKind; writes the whole row including its padding.
  void (*quantise[kActivationKinds])(const float* x, int64_t n_in, void* row);
  // Indexed by KvType.
  void (*attend[kKvTypes])(const AttentionJob& job);
  AttentionDots attention_dots[kKvTypes];  // as these functions multiply
  void (*store_kv[kKvTypes])(const KvWrite& write);
  void (*residual_norm)(const ResidualNorm& job);
  void (*rotate_head)(const HeadRotation& job);
  void (*swiglu)(const float* gate, const float* up, int64_t n, float* out);
};

const KernelTable& kernel_table(Isa isa);

// One object per unit in kernels/cpu/.
extern const KernelTable kScalarKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvxVnniKernels;
extern const KernelTable kAvx512Kernels;

// What kAvx512Bf16 does otherwise than kAvx512, of which it has the rest.
struct Bf16Kernels {
  void (*linear_bf16)(const LinearJob& job);  // bf16 panels, kBF16 rows
  void (*linear_fp8)(const LinearJob& job);   // e4m3 panels, kBF16 rows
  void (*attend)(const AttentionJob& job);    // bf16 pages, values by bf16 dot products
};
extern const Bf16Kernels kAvx512Bf16Kernels;
// The table of a tier with these in place of its own.
KernelTable with_bf16(KernelTable table, const Bf16Kernels& kernels);

}  // namespace millrace::kernels
