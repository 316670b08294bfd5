#include "kernels/isa.h"

#include <cpuid.h>

#include <string>

namespace millrace::kernels {
namespace {

struct CpuidLeaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidLeaf cpuid(uint32_t leaf, uint32_t subleaf) {
  CpuidLeaf r;
  if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) {
    return {};
  }
  return r;
}

// The register states that the operating system saves on a context switch (XCR0).
uint64_t enabled_register_states() {
  constexpr uint32_t kOsxsave = 1u << 27;
  if ((cpuid(1, 0).ecx & kOsxsave) == 0) {
    return 0;
  }
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

bool has_bits(uint64_t value, uint64_t bits) {
  return (value & bits) == bits;
}

bool has_avx2() {
  constexpr uint32_t kFma = 1u << 12;
  constexpr uint32_t kAvx = 1u << 28;
  constexpr uint32_t kF16c = 1u << 29;
  constexpr uint32_t kAvx2 = 1u << 5;     // leaf 7 ebx
  constexpr uint64_t kSseAvxState = 0x6;  // XMM and YMM
  return has_bits(cpuid(1, 0).ecx, kFma | kAvx | kF16c) && has_bits(cpuid(7, 0).ebx, kAvx2) &&
         has_bits(enabled_register_states(), kSseAvxState);
}

bool has_avx_vnni() {
  constexpr uint32_t kAvxVnni = 1u << 4;  // leaf 7.1 eax
  return has_avx2() && cpuid(7, 0).eax >= 1 && has_bits(cpuid(7, 1).eax, kAvxVnni);
}

// Only what kernels_avx512.cpp is compiled for: processors without BF16 or VBMI instructions
// (Cascade Lake, Ice Lake, Tiger Lake) run the tier as well as newer ones.
bool has_avx512() {
  constexpr uint32_t kF = 1u << 16;  // leaf 7 ebx
  constexpr uint32_t kDq = 1u << 17;
  constexpr uint32_t kBw = 1u << 30;
  constexpr uint32_t kVl = 1u << 31;
  constexpr uint32_t kVnni = 1u << 11;     // leaf 7 ecx
  constexpr uint64_t kAvx512State = 0xe6;  // XMM, YMM, mask registers, both ZMM halves
  const CpuidLeaf leaf7 = cpuid(7, 0);
  return has_avx2() && has_bits(leaf7.ebx, kF | kDq | kBw | kVl) && has_bits(leaf7.ecx, kVnni) &&
         has_bits(enabled_register_states(), kAvx512State);
}

bool has_avx512_bf16() {
  constexpr uint32_t kBf16 = 1u << 5;  // leaf 7.1 eax
  return has_avx512() && cpuid(7, 0).eax >= 1 && has_bits(cpuid(7, 1).eax, kBf16);
}

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvxVnni:
      return "avx-vnni";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512-bf16";
  }
  return "unknown";
}

bool isa_is_available(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return has_avx2();
    case Isa::kAvxVnni:
      return has_avx_vnni();
    case Isa::kAvx512:
      return has_avx512();
    case Isa::kAvx512Bf16:
      return has_avx512_bf16();
  }
  return false;
}

Isa detect_isa() {
  Isa best = Isa::kScalar;
  for (const Isa isa : kAllIsas) {
    if (isa_is_available(isa)) best = isa;
  }
  return best;
}

Result<Isa> isa_from_name(std::string_view name) {
  std::string known;
  std::string available;
  bool is_known = false;
  for (const Isa isa : kAllIsas) {
    const auto add_to = [isa](std::string& names) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", isa_name(isa));
    };
    add_to(known);
    if (!isa_is_available(isa)) {
      is_known = is_known || name == isa_name(isa);
      continue;
    }
    if (name == isa_name(isa)) return isa;
    add_to(available);
  }
  if (is_known) {
    return fail(
        ErrorCode::kUnsupported, "[isa] this processor cannot run {}, it runs {}", name, available);
  }
  return fail(ErrorCode::kInvalidArgument,
              "[isa] unknown instruction set '{}', expected one of {}; this processor runs {}",
              name,
              known,
              available);
}

}  // namespace millrace::kernels
