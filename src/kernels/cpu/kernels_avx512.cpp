// The AVX-512 tier; its flags are in src/CMakeLists.txt.
#include "kernels/cpu/isa_avx512.h"
#include "kernels/cpu/kernels.inl.h"

namespace millrace::kernels {

constexpr KernelTable kAvx512Kernels = make_table<Avx512>();

}  // namespace millrace::kernels
