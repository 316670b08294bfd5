// The AVX-VNNI tier; its flags are in src/CMakeLists.txt.
#include "kernels/cpu/isa_avx_vnni.h"
#include "kernels/cpu/kernels.inl.h"

namespace millrace::kernels {

constexpr KernelTable kAvxVnniKernels = make_table<AvxVnni>();

}  // namespace millrace::kernels
