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
constexpr std::string_view kBoth = "GET /v1/models, POST /v1/chat/completions";
constexpr std::string_view kNothing = "not built";
constexpr std::string_view kFetch =
    "not built (the model is the file that millrace serve was given)";
constexpr std::string_view kVersion = "not built (millrace --version)";

// Of llama.cpp's server, Ollama, vLLM and SGLang, and those of OpenAI that are not here.
constexpr std::array kPaths = {
    ForeignPath{"/", kBoth},
    ForeignPath{"/v1", kBoth},
    ForeignPath{"/api/chat", kChat},
    ForeignPath{"/api/generate", kCompletions},
    ForeignPath{"/api/tags", kModels},
    ForeignPath{"/api/show", kModels},
    ForeignPath{"/api/version", kVersion},
    ForeignPath{"/api/ps", kMetrics},
    ForeignPath{"/api/pull", kFetch},
    ForeignPath{"/api/push", kFetch},
    ForeignPath{"/api/create", kFetch},
    ForeignPath{"/api/copy", kFetch},
    ForeignPath{"/api/delete", kFetch},
    ForeignPath{"/api/embed", kNothing},
    ForeignPath{"/api/embeddings", kNothing},
    ForeignPath{"/chat/completions", kChat},
    ForeignPath{"/completion", kCompletions},
    ForeignPath{"/completions", kCompletions},
    ForeignPath{"/generate", kCompletions},
    ForeignPath{"/models", kModels},
    ForeignPath{"/version", kVersion},
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
    ForeignPath{"/rerank", kNothing},
    ForeignPath{"/reranking", kNothing},
    ForeignPath{"/v1/reranking", kNothing},
    ForeignPath{"/apply-template", "POST /tokenize (with messages, the ids of the prompt)"},
};

}  // namespace

std::string_view instead_of(std::string_view path) {
  const auto* found = std::ranges::find(kPaths, path, &ForeignPath::path);
  return found == kPaths.end() ? std::string_view() : found->here;
}

std::string tidy_path(std::string_view path) {
  std::string tidy;
  for (const char c : path) {
    if (c != '/' || !tidy.ends_with('/')) {
      tidy += c;
    }
  }
  if (tidy.size() > 1 && tidy.ends_with('/')) {
    tidy.pop_back();
  }
  return tidy;
}

}  // namespace millrace
