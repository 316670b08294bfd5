// The AVX-VNNI tier, compiled like kernels_avx_vnni.cpp.
#include "kernels/cpu/isa_avx_vnni.h"
#include "kernels/cpu/probes.inl.h"

namespace millrace::kernels {

constexpr MachineProbe kAvxVnniProbe = make_probe<AvxVnni>();

}  // namespace millrace::kernels
