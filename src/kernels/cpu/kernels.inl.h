#pragma once
// Fills the function table of one instruction set V from the templates. A new kernel is a row here
// and a member of KernelTable.
//
// Rules of the units that include this: C headers and immintrin.h only (an inline function of the
// C++ library compiled here could be kept by the linker for the whole program and then fail on an
// older processor); everything in an unnamed namespace; no weak symbol leaves the object.

#include "kernels/cpu/math.inl.h"
#include "kernels/kernel_table.h"

namespace millrace::kernels {
namespace {

template <class V>
constexpr KernelTable make_table() {
  return {
      .vector_floats = V::kWidth,
      .linear = {},
      .quantise = {},
  };
}

}  // namespace
}  // namespace millrace::kernels
