#include "server/response_cache/redis_namespace.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>

#include "engine/engine.h"

namespace millrace {

std::optional<Digest256> redis_namespace(const Engine& engine,
                                         std::string_view version,
                                         const std::atomic<bool>& is_stopping) {
  constexpr size_t kPiece = 16 << 20;
  const GgufFile& file = *engine.files().gguf;
  ContentDigest digest;
  for (std::span<const std::byte> bytes : file.contents()) {
    while (!bytes.empty()) {
      if (is_stopping.load()) {
        return std::nullopt;
      }
      const auto piece = bytes.first(std::min(bytes.size(), kPiece));
      digest.add(piece);
      bytes = bytes.subspan(piece.size());
    }
  }
  file.drop_pages();
  const ModelInfo& info = engine.info();
  const std::string rest = fmt::format("\n{}\n{}\n{}\n{}",
                                       version,
                                       kernels::isa_name(info.isa),
                                       static_cast<int>(info.kv_type),
                                       file.file_bytes());
  digest.add(std::as_bytes(std::span(rest)));
  return digest.finish();
}

}  // namespace millrace
