#pragma once
// Matrices as the kernels take them, whatever form they have in the files. Pure functions, any
// thread.

#include <cstddef>

#include "base/result.h"
#include "base/worker_pool.h"
#include "kernels/linear.h"
#include "tensor/tensor_view.h"

namespace millrace {

// For TensorViews with and without CodedMatrix.
kernels::PanelFormat matrix_panel_format(const TensorView& matrix);
size_t matrix_packed_bytes(const TensorView& matrix);

// As LinearWeights::pack, for a matrix with CodedMatrix. While it runs it takes memory for the
// codes of an INT4 matrix once more (kResourceExhausted).
Result<kernels::LinearWeights> pack_coded(const TensorView& matrix,
                                          kernels::Rounding rounding,
                                          WorkerPool& pool,
                                          std::byte* memory);

}  // namespace millrace
