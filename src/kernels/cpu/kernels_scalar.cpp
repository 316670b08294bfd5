// The portable tier, compiled for the baseline processor.
#define MR_PORTABLE_UNIT
#include "kernels/cpu/isa_scalar.h"
#include "kernels/cpu/kernels.inl.h"

namespace millrace::kernels {

constexpr KernelTable kScalarKernels = make_table<Scalar<8>>();

}  // namespace millrace::kernels
