#pragma once
// Checks the matrices of kernels/matrix_source.h and repacks 32 rows of one into a zeroed panel
// (layouts: kernels/panel.h). Any thread.

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "kernels/matrix_source.h"
#include "kernels/panel.h"

namespace millrace::kernels {

// Errors as LinearWeights::pack.
Result<void> check_matrix(const Fp8Matrix& matrix);
Result<void> check_matrix(const Int4Matrix& matrix);

// Rows first_row .. first_row + 31 of a checked matrix; those that it lacks stay zero. panel: as
// many zeroed bytes as the format takes for 32 rows of n_in values.
void pack_panel(const Fp8Matrix& matrix, int64_t first_row, std::byte* panel);
void pack_panel(const Int4Matrix& matrix, int64_t first_row, std::byte* panel);

}  // namespace millrace::kernels
