#pragma once
// Compiler hints of the instruction-set units.
//
// MR_INLINE: every helper is inlined, so no copy of it can be shared with a unit that was compiled
// for other instructions.
// MR_UNROLL: before a loop over an array of registers; unrolled, the array lives in registers.
//
// In the portable units (they define MR_PORTABLE_UNIT) registers are arrays themselves, and both
// would only cost minutes of compile time.

#ifdef MR_PORTABLE_UNIT
#define MR_INLINE inline
#define MR_UNROLL
#else
#define MR_INLINE __attribute__((always_inline)) inline
#define MR_UNROLL _Pragma("GCC unroll 16")
#endif
