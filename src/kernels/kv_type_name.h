#pragma once
// KV types as people write them. Pure functions, any thread.

#include <string_view>

#include "base/result.h"
#include "kernels/kv_page.h"

namespace millrace {

// kInvalidArgument lists the names.
Result<KvType> kv_type_from_name(std::string_view name);

}  // namespace millrace
