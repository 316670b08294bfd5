#include "kernels/kernel_table.h"

#include "base/check.h"
#include "kernels/isa.h"

namespace millrace::kernels {

const KernelTable& kernel_table(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return kScalarKernels;
    case Isa::kAvx2:
      return kAvx2Kernels;
    case Isa::kAvxVnni:
      return kAvxVnniKernels;
    case Isa::kAvx512:
      return kAvx512Kernels;
  }
  MR_CHECK(false, "isa {}", static_cast<int>(isa));
}

}  // namespace millrace::kernels
