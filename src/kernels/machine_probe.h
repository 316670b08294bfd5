#pragma once
// Loops that do nothing but keep one unit of the processor busy, once per instruction set: what
// machine_limits.h times. Included by the instruction-set units, so only C headers here.

#include <stdint.h>

#include "kernels/dot_kind.h"

namespace millrace::kernels {

enum class Isa : uint8_t;  // kernels/isa.h

inline constexpr int kProbeBytes = 1024;  // of the operands, which stay in the first cache

struct MachineProbe {
  // n_loops times macs[kind] multiply-adds. The operands are any finite floats; `out` takes what
  // was computed, kProbeBytes, so that it is. Null and 0 where there is no such instruction.
  void (*dot[kDotKinds])(const uint8_t* operands, int64_t n_loops, uint8_t* out);
  int macs[kDotKinds];
  // Reads [bytes, bytes + n), n a multiple of 1024, as four streams side by side: plainly, and with
  // prefetch as far ahead as the matrix kernels have it. Which is faster depends on the processor.
  void (*read[2])(const uint8_t* bytes, int64_t n, uint8_t* out);
};

const MachineProbe& machine_probe(Isa isa);

// One object per unit in kernels/cpu/.
extern const MachineProbe kScalarProbe;
extern const MachineProbe kAvx2Probe;
extern const MachineProbe kAvxVnniProbe;
extern const MachineProbe kAvx512Probe;
extern const MachineProbe kAvx512Bf16Probe;

}  // namespace millrace::kernels
