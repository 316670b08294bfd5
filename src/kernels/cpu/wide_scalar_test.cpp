#define MR_PORTABLE_UNIT
#include "kernels/cpu/isa_scalar.h"
#include "kernels/cpu/kernels.inl.h"
#include "kernels/cpu/wide_scalar_testing.h"

namespace millrace::kernels {

constexpr KernelTable kWideScalarKernels = make_table<Scalar<16>>();

}  // namespace millrace::kernels
