// libFuzzer entry: `gguf_fuzz NEW_CORPUS tests/fuzz/corpus/gguf`.

#include <cstddef>
#include <cstdint>
#include <span>

#include "gguf_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static_cast<void>(millrace::exercise_gguf(std::as_bytes(std::span(data, size))));
  return 0;
}
