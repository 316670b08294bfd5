#include "kernels/kv_page.h"

#include "kernels/kv_type_name.h"

namespace millrace {
namespace {

constexpr const char* kNames[kKvTypes] = {"bf16", "f32", "int8", "fp8"};

}  // namespace

const char* kv_type_name(KvType type) {
  return kNames[static_cast<int>(type)];
}

Result<KvType> kv_type_from_name(std::string_view name) {
  for (int type = 0; type < kKvTypes; ++type) {
    if (name == kNames[type]) return static_cast<KvType>(type);
  }
  return fail(
      ErrorCode::kInvalidArgument, "unknown KV type {}, expected bf16, f32, int8 or fp8", name);
}

}  // namespace millrace
