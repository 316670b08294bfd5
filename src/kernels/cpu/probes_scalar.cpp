// The portable tier, compiled for the baseline processor.
#define MR_PORTABLE_UNIT
#include "kernels/cpu/isa_scalar.h"
#include "kernels/cpu/probes.inl.h"

namespace millrace::kernels {

constexpr MachineProbe kScalarProbe = make_probe<Scalar<8>>();

}  // namespace millrace::kernels
