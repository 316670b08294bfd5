#include "kernels/kernel_table.h"

#include "base/check.h"
#include "kernels/isa.h"

namespace millrace::kernels {

KernelTable with_bf16(KernelTable table, const Bf16Kernels& kernels) {
  constexpr auto kBf16 = static_cast<int>(PanelFormat::kBF16);
  constexpr auto kFp8 = static_cast<int>(PanelFormat::kFP8_E4M3);
  constexpr auto kCoarse = static_cast<int>(Rounding::kCoarse);
  table.activation.kinds[kBf16][kCoarse] = ActivationKind::kBF16;
  table.activation.kinds[kFp8][kCoarse] = ActivationKind::kBF16;
  table.linear[kBf16][kCoarse] = kernels.linear_bf16;
  table.linear[kFp8][kCoarse] = kernels.linear_fp8;
  constexpr auto kPages = static_cast<int>(KvType::kBF16);
  table.attend[kPages] = kernels.attend;
  table.attention_dots[kPages].values = DotKind::kBF16;
  return table;
}

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
    case Isa::kAvx512Bf16: {
      static const KernelTable kTable = with_bf16(kAvx512Kernels, kAvx512Bf16Kernels);
      return kTable;
    }
  }
  MR_CHECK(false, "isa {}", static_cast<int>(isa));
}

}  // namespace millrace::kernels
