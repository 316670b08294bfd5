#pragma once
// The instruction sets that a test can run here, also where the processor lacks them.

#include <vector>

#include "kernels/cpu/emulated_avx512_testing.h"
#include "kernels/cpu/wide_scalar_testing.h"
#include "kernels/isa.h"
#include "kernels/kernel_table.h"

namespace millrace::kernels {

struct Tier {
  const char* name;
  const KernelTable* table;
};

inline std::vector<Tier> tiers() {
  std::vector<Tier> all = {{"scalar", &kScalarKernels}, {"wide scalar", &kWideScalarKernels}};
  if (emulated_avx512_kernels() != nullptr && isa_is_available(Isa::kAvx2)) {
    all.push_back({"emulated avx512", emulated_avx512_kernels()});
    all.push_back({"emulated avx512-bf16", emulated_avx512_bf16_kernels()});
  }
  for (const Isa isa : kAllIsas) {
    if (isa != Isa::kScalar && isa_is_available(isa)) {
      all.push_back({isa_name(isa), &kernel_table(isa)});
    }
  }
  return all;
}

}  // namespace millrace::kernels
