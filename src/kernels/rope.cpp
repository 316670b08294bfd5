#include "kernels/rope.h"

#include "kernels/isa.h"
#include "kernels/kernel_table.h"

namespace millrace::kernels {

void rotate_head(Isa isa, const HeadRotation& job) {
  kernel_table(isa).rotate_head(job);
}

}  // namespace millrace::kernels
