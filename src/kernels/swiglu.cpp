#include "kernels/swiglu.h"

#include "kernels/isa.h"
#include "kernels/kernel_table.h"

namespace millrace::kernels {

void swiglu(Isa isa, const float* gate, const float* up, int64_t n, float* out) {
  kernel_table(isa).swiglu(gate, up, n, out);
}

}  // namespace millrace::kernels
