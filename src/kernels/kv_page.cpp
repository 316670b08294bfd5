#include "kernels/kv_page.h"

namespace millrace {

const char* kv_type_name(KvType type) {
  return type == KvType::kBF16 ? "bf16" : "f32";
}

}  // namespace millrace
