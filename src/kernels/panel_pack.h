#pragma once
// Repacks up to 32 rows of a tensor into one zeroed panel (layouts: kernels/panel.h). Any thread.

#include <cstddef>
#include <cstdint>

#include "kernels/panel.h"
#include "tensor/dtype.h"

namespace millrace::kernels {

struct PanelSource {
  const std::byte* rows;  // row r at rows + r * row_bytes, as in the file
  int64_t row_bytes;
  int n_rows;  // 1..32
  int64_t n_in;
};

// panel: as many zeroed bytes as the format takes for 32 rows of n_in values (kernels/panel.h).
// Rows that the source lacks stay zero.
using PackPanel = void (*)(const PanelSource& source, std::byte* panel);

// The function for a tensor type; format is panel_format(dtype), or kBF16 for kF16.
PackPanel panel_packer(DType dtype, PanelFormat format);

// True when each of n halves is exactly representable in bf16. halves: f16, of any alignment.
bool halves_fit_bf16(const std::byte* halves, int64_t n);

}  // namespace millrace::kernels
