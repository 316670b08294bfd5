#include "server/response_cache/redis_namespace.h"

#include <fmt/format.h>
#include <gnu/libc-version.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/libm_digest.h"
#include "base/mapped_file.h"
#include "engine/engine.h"

namespace millrace {

Result<Digest256> redis_namespace(const Engine& engine, const std::atomic<bool>& is_stopping) {
  constexpr size_t kPiece = 16 << 20;
  const Checkpoint& file = *engine.files().checkpoint;
  const auto program = MappedFile::open("/proc/self/exe");
  if (!program) {
    return propagate(program);
  }
  std::vector<std::span<const std::byte>> contents(file.contents().begin(), file.contents().end());
  contents.push_back(program->bytes());
  Sha256 digest;
  for (std::span<const std::byte> bytes : contents) {
    while (!bytes.empty()) {
      if (is_stopping.load()) {
        return fail(ErrorCode::kCancelled, "stopped before the model's files were read");
      }
      const auto piece = bytes.first(std::min(bytes.size(), kPiece));
      digest.add(piece);
      bytes = bytes.subspan(piece.size());
    }
  }
  file.drop_pages();
  const ModelInfo& info = engine.info();
  const std::string rest = fmt::format("\n{}\n{}\n{}\n{}",
                                       gnu_get_libc_version(),
                                       kernels::isa_name(info.isa),
                                       static_cast<int>(info.kv_type),
                                       file.file_bytes());
  digest.add(std::as_bytes(std::span(rest)));
  digest.add(libm_digest());
  return digest.finish();
}

}  // namespace millrace
