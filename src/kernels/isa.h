#pragma once
// Which instruction set the kernels run on. Chosen once at start and handed down; any thread.

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace millrace::kernels {

enum class Isa : uint8_t {
  kScalar,      // portable C++, also the reference of the tests
  kAvx2,        // AVX2, FMA, F16C
  kAvxVnni,     // the same and AVX-VNNI
  kAvx512,      // AVX-512 F, BW, VL, DQ, VNNI
  kAvx512Bf16,  // the same and BF16
};

// From the slowest to the fastest.
inline constexpr Isa kAllIsas[] = {
    Isa::kScalar, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512, Isa::kAvx512Bf16};

// "scalar", "avx2", "avx-vnni", "avx512", "avx512-bf16": the spelling of MILLRACE_ISA.
const char* isa_name(Isa isa);

// True when the processor has the instructions and the operating system saves their registers.
bool isa_is_available(Isa isa);

// The best available tier.
Isa detect_isa();

// Fails for an unknown name and for a tier that this machine lacks.
Result<Isa> isa_from_name(std::string_view name);

}  // namespace millrace::kernels
