#include "kernels/attention.h"

#include "base/check.h"
#include "kernels/isa.h"
#include "kernels/kernel_table.h"

namespace millrace::kernels {

void attend(Isa isa, KvType type, const AttentionJob& job) {
  MR_CHECK(job.n_tokens > 0 && job.n_heads > 0 && job.n_tokens * job.n_heads <= kAttentionRows,
           "[attend] {} tokens of {} heads",
           job.n_tokens,
           job.n_heads);
  MR_CHECK(
      job.head_dim > 0 && job.head_dim % 2 == 0 && job.v_dim % 16 == 0 && job.v_dim >= job.head_dim,
      "[attend] head_dim {} v_dim {}",
      job.head_dim,
      job.v_dim);
  MR_CHECK(type != KvType::kInt8 || job.head_dim <= kMaxInt8HeadDim,
           "[attend] int8 pages of {} dims",
           job.head_dim);
  kernel_table(isa).attend[static_cast<int>(type)](job);
}

AttentionDots attention_dots(Isa isa, KvType type) {
  return kernel_table(isa).attention_dots[static_cast<int>(type)];
}

void store_kv(Isa isa, KvType type, const KvWrite& write) {
  kernel_table(isa).store_kv[static_cast<int>(type)](write);
}

}  // namespace millrace::kernels
