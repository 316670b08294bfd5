#include "server/foreign_paths.h"

#include <algorithm>
#include <array>

namespace millrace {
namespace {

struct ForeignPath {
  std::string_view path;
  std::string_view here;
};

constexpr std::string_view kChat = "POST /v1/chat/completions";
constexpr std::string_view kCompletions = "POST /v1/completions";
constexpr std::string_view kModels = "GET /v1/models";
constexpr std::string_view kHealth = "GET /health/ready";
constexpr std::string_view kMetrics = "GET /metrics";
constexpr std::string_view kNothing = "not built";

// Of llama.cpp's server, Ollama, vLLM and SGLang, and those of OpenAI that are not here.
constexpr std::array kPaths = {
    ForeignPath{"/", "GET /v1/models, POST /v1/chat/completions"},
    ForeignPath{"/api/chat", kChat},
    ForeignPath{"/api/generate", kCompletions},
    ForeignPath{"/api/tags", kModels},
    ForeignPath{"/api/show", kModels},
    ForeignPath{"/api/version", kModels},
    ForeignPath{"/api/ps", kMetrics},
    ForeignPath{"/api/embed", kNothing},
    ForeignPath{"/api/embeddings", kNothing},
    ForeignPath{"/chat/completions", kChat},
    ForeignPath{"/completion", kCompletions},
    ForeignPath{"/completions", kCompletions},
    ForeignPath{"/generate", kCompletions},
    ForeignPath{"/models", kModels},
    ForeignPath{"/version", kModels},
    ForeignPath{"/props", kModels},
    ForeignPath{"/slots", kMetrics},
    ForeignPath{"/get_model_info", kModels},
    ForeignPath{"/ping", kHealth},
    ForeignPath{"/healthz", kHealth},
    ForeignPath{"/v1/health", kHealth},
    ForeignPath{"/infill", kNothing},
    ForeignPath{"/embedding", kNothing},
    ForeignPath{"/v1/embeddings", kNothing},
    ForeignPath{"/v1/responses", kNothing},
    ForeignPath{"/v1/messages", kNothing},
    ForeignPath{"/v1/rerank", kNothing},
};

}  // namespace

std::string_view instead_of(std::string_view path) {
  const auto* found = std::ranges::find(kPaths, path, &ForeignPath::path);
  return found == kPaths.end() ? std::string_view() : found->here;
}

}  // namespace millrace
