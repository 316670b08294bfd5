#pragma once
// Fills the function table of one instruction set V from the templates. A new kernel is a row here
// and a member of KernelTable.
//
// Rules of the units that include this: C headers and immintrin.h only (an inline function of the
// C++ library compiled here could be kept by the linker for the whole program and then fail on an
// older processor); everything in an unnamed namespace; no weak symbol leaves the object.

#include "kernels/cpu/attention.inl.h"
#include "kernels/cpu/attention_int8.inl.h"
#include "kernels/cpu/linear_float.inl.h"
#include "kernels/cpu/linear_fp8.inl.h"
#include "kernels/cpu/linear_int16.inl.h"
#include "kernels/cpu/linear_int4.inl.h"
#include "kernels/cpu/linear_int8.inl.h"
#include "kernels/cpu/linear_planes.inl.h"
#include "kernels/cpu/math.inl.h"
#include "kernels/cpu/norm.inl.h"
#include "kernels/cpu/quantise.inl.h"
#include "kernels/cpu/rope.inl.h"
#include "kernels/cpu/store_kv.inl.h"
#include "kernels/cpu/swiglu.inl.h"
#include "kernels/kernel_table.h"

namespace millrace::kernels {
namespace {

template <class V>
constexpr KernelTable make_table() {
  return {
      .vector_floats = V::kWidth,
      .activation = kPanelActivation,
      .linear = {{linear_panels<V, FloatPanel<V, F32Codec<V>>>,
                  linear_panels<V, FloatPanel<V, F32Codec<V>>>},
                 {linear_panels<V, FloatPanel<V, F16Codec<V>>>,
                  linear_panels<V, FloatPanel<V, F16Codec<V>>>},
                 {linear_panels<V, FloatPanel<V, BF16Codec<V>>>,
                  linear_panels<V, FloatPanel<V, BF16Codec<V>>>},
                 {linear_panels<V, Q8_0Panel<V>>, linear_panels<V, Q8_0Panel<V>>},
                 {linear_panels<V, Q4_0Panel<V>>, linear_panels<V, FineQ4_0Panel<V>>},
                 {linear_panels<V, Q4_1Panel<V>>, linear_panels<V, Q4_1Panel<V>>},
                 {linear_panels<V, Q5_0Panel<V>>, linear_panels<V, Q5_0Panel<V>>},
                 {linear_panels<V, Q5_1Panel<V>>, linear_panels<V, Q5_1Panel<V>>},
                 {linear_panels<V, Q2_KPanel<V>>, linear_panels<V, Q2_KPanel<V>>},
                 {linear_panels<V, Q3_KPanel<V>>, linear_panels<V, Q3_KPanel<V>>},
                 {linear_panels<V, Q4_KPanel<V>>, linear_panels<V, FineQ4_KPanel<V>>},
                 {linear_panels<V, Q5_KPanel<V>>, linear_panels<V, Q5_KPanel<V>>},
                 {linear_panels<V, Q6_KPanel<V>>, linear_panels<V, Q6_KPanel<V>>},
                 {linear_panels<V, Fp8Panel<V>>, linear_panels<V, Fp8Panel<V>>},
                 {linear_panels<V, Int4G32Panel<V>>, linear_panels<V, FineInt4G32Panel<V>>},
                 {linear_panels<V, Int4G64Panel<V>>, linear_panels<V, FineInt4G64Panel<V>>},
                 {linear_panels<V, Int4G128Panel<V>>, linear_panels<V, FineInt4G128Panel<V>>}},
      .quantise = {copy_floats<V>,
                   quantise_blocks<V, Int8Block>,
                   quantise_blocks<V, Int8Per32Block>,
                   quantise_blocks<V, Int16Block>,
                   round_to_bf16<V>},
      .attend = {attend<V, FloatAttention<V, Bf16Page<V>>>,
                 attend<V, FloatAttention<V, F32Page<V>>>,
                 attend<V, Int8Attention<V>>,
                 attend<V, FloatAttention<V, Fp8Page<V>>>},
      .attention_dots = {{DotKind::kF32, DotKind::kF32},
                         {DotKind::kF32, DotKind::kF32},
                         {DotKind::kInt16, DotKind::kInt16},
                         {DotKind::kF32, DotKind::kF32}},
      .store_kv = {store_kv_bf16, store_kv_f32, store_kv_int8<V>, store_kv_fp8},
      .residual_norm = residual_norm<V>,
      .rotate_head = rotate_head<V>,
      .swiglu = swiglu<V>,
  };
}

}  // namespace
}  // namespace millrace::kernels
