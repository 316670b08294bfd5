#pragma once
// Compiler hints of the instruction-set units.

// Every helper is inlined, so no copy of it can be shared with a unit that was compiled for other
// instructions.
#define MR_INLINE __attribute__((always_inline)) inline

// Before a loop over an array of registers: unrolled, the array lives in registers.
#define MR_UNROLL _Pragma("GCC unroll 16")
