#include "kernels/machine_probe.h"

#include "base/check.h"
#include "kernels/isa.h"

namespace millrace::kernels {

const MachineProbe& machine_probe(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return kScalarProbe;
    case Isa::kAvx2:
      return kAvx2Probe;
    case Isa::kAvxVnni:
      return kAvxVnniProbe;
    case Isa::kAvx512:
      return kAvx512Probe;
    case Isa::kAvx512Bf16:
      return kAvx512Bf16Probe;
  }
  MR_CHECK(false, "isa {}", static_cast<int>(isa));
}

}  // namespace millrace::kernels
