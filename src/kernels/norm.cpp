#include "kernels/norm.h"

#include "kernels/isa.h"
#include "kernels/kernel_table.h"

namespace millrace::kernels {

void residual_norm(Isa isa, const ResidualNorm& job) {
  kernel_table(isa).residual_norm(job);
}

}  // namespace millrace::kernels
