#pragma once
// Every helper of the instruction-set units is inlined, so no copy of it can be shared with a unit
// that was compiled for other instructions.

#define MR_INLINE __attribute__((always_inline)) inline
