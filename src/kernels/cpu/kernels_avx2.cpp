// The AVX2 tier; compiled with -mavx2 -mfma -mf16c (src/CMakeLists.txt).
#include "kernels/cpu/isa_avx2.h"
#include "kernels/cpu/kernels.inl.h"

namespace millrace::kernels {

constexpr KernelTable kAvx2Kernels = make_table<Avx2>();

}  // namespace millrace::kernels
