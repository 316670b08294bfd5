#include "server/foreign_paths.h"

#include <algorithm>
#include <array>

namespace millrace {
namespace {

constexpr std::string_view kChat = "POST /v1/chat/completions";
constexpr std::string_view kCompletions = "POST /v1/completions";
constexpr std::string_view kModels = "GET /v1/models";
constexpr std::string_view kHealth = "GET /health/ready";
constexpr std::string_view kMetrics = "GET /metrics";
constexpr std::string_view kTokenize = "POST /tokenize";
constexpr std::string_view kDetokenize = "POST /detokenize";
constexpr std::string_view kBoth = "GET /v1/models, POST /v1/chat/completions";
constexpr std::string_view kEmbeddings = "embeddings are not built";
constexpr std::string_view kScores =
    "scores and rankings are not built (POST /v1/completions with echo and logprobs has the "
    "probabilities of a prompt)";
constexpr std::string_view kOtherShape =
    "this API is not built: POST /v1/chat/completions, with the whole conversation each time";
constexpr std::string_view kInfill = "filling in the middle is not built";
constexpr std::string_view kMedia = "not built (text in, text out)";
constexpr std::string_view kFiles =
    "not built (nothing is stored, each request is answered at once)";
constexpr std::string_view kFetch =
    "not built (the model is the file that millrace serve was given)";
constexpr std::string_view kAdapters = "adapters are not built";
constexpr std::string_view kVersion = "not built (millrace --version)";
constexpr std::string_view kReset =
    "not built (another cache_salt finds nothing that was computed before)";
constexpr std::string_view kAlwaysOn = "not built (a server is always awake, a signal ends it)";

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
    ForeignPath{"/api/blobs/*", kFetch},
    ForeignPath{"/api/embed", kEmbeddings},
    ForeignPath{"/api/embeddings", kEmbeddings},
    ForeignPath{"/chat/completions", kChat},
    ForeignPath{"/v1/chat", kChat},
    ForeignPath{"/v1/chat/completion", kChat},
    ForeignPath{"/v1/engines/*", kCompletions},
    ForeignPath{"/openai/deployments/*", kBoth},
    ForeignPath{"/completion", kCompletions},
    ForeignPath{"/completions", kCompletions},
    ForeignPath{"/v1/completion", kCompletions},
    ForeignPath{"/generate", kCompletions},
    ForeignPath{"/generate_stream", kCompletions},
    ForeignPath{"/inference/v1/generate", kCompletions},
    ForeignPath{"/invocations", kBoth},
    ForeignPath{"/models", kModels},
    ForeignPath{"/models/*", kModels},
    ForeignPath{"/v1/model", kModels},
    ForeignPath{"/version", kVersion},
    ForeignPath{"/v1/version", kVersion},
    ForeignPath{"/props", kModels},
    ForeignPath{"/slots", kMetrics},
    ForeignPath{"/slots/*", kMetrics},
    ForeignPath{"/load", kMetrics},
    ForeignPath{"/get_load", kMetrics},
    ForeignPath{"/v1/loads", kMetrics},
    ForeignPath{"/v1/metrics", kMetrics},
    ForeignPath{"/model_info", kModels},
    ForeignPath{"/get_model_info", kModels},
    ForeignPath{"/server_info", kModels},
    ForeignPath{"/get_server_info", kModels},
    ForeignPath{"/ping", kHealth},
    ForeignPath{"/healthz", kHealth},
    ForeignPath{"/readyz", kHealth},
    ForeignPath{"/health_generate", kHealth},
    ForeignPath{"/livez", "GET /health/live"},
    ForeignPath{"/v1/health", kHealth},
    ForeignPath{"/v1/tokenize", kTokenize},
    ForeignPath{"/v1/detokenize", kDetokenize},
    ForeignPath{"/apply-template", "POST /tokenize (with messages, the ids of the prompt)"},
    ForeignPath{"/v1/chat/completions/render",
                "POST /tokenize (with messages, the ids of the prompt)"},
    ForeignPath{"/infill", kInfill},
    ForeignPath{"/embedding", kEmbeddings},
    ForeignPath{"/embeddings", kEmbeddings},
    ForeignPath{"/v1/embeddings", kEmbeddings},
    ForeignPath{"/pooling", kEmbeddings},
    ForeignPath{"/classify", kScores},
    ForeignPath{"/encode", kEmbeddings},
    ForeignPath{"/score", kScores},
    ForeignPath{"/v1/score", kScores},
    ForeignPath{"/rerank", kScores},
    ForeignPath{"/v1/rerank", kScores},
    ForeignPath{"/v2/rerank", kScores},
    ForeignPath{"/reranking", kScores},
    ForeignPath{"/v1/reranking", kScores},
    ForeignPath{"/v1/responses", kOtherShape},
    ForeignPath{"/v1/responses/*", kOtherShape},
    ForeignPath{"/v1/conversations", kOtherShape},
    ForeignPath{"/v1/messages", kOtherShape},
    ForeignPath{"/v1/messages/count_tokens", kTokenize},
    ForeignPath{"/v1/assistants", kOtherShape},
    ForeignPath{"/v1/threads", kOtherShape},
    ForeignPath{"/v1/audio/*", kMedia},
    ForeignPath{"/v1/images/*", kMedia},
    ForeignPath{"/v1/realtime", kMedia},
    ForeignPath{"/v1/moderations", "not built"},
    ForeignPath{"/v1/files", kFiles},
    ForeignPath{"/v1/files/*", kFiles},
    ForeignPath{"/v1/batches", kFiles},
    ForeignPath{"/v1/batches/*", kFiles},
    ForeignPath{"/v1/fine_tuning/*", "training is not built"},
    ForeignPath{"/lora-adapters", kAdapters},
    ForeignPath{"/v1/load_lora_adapter", kAdapters},
    ForeignPath{"/v1/unload_lora_adapter", kAdapters},
    ForeignPath{"/reset_prefix_cache", kReset},
    ForeignPath{"/flush_cache", kReset},
    ForeignPath{"/sleep", kAlwaysOn},
    ForeignPath{"/wake_up", kAlwaysOn},
    ForeignPath{"/is_sleeping", kAlwaysOn},
};

bool matches(const ForeignPath& row, std::string_view path) {
  if (!row.path.ends_with('*')) {
    return path == row.path;
  }
  const std::string_view folder = row.path.substr(0, row.path.size() - 1);
  return path.size() > folder.size() && path.starts_with(folder);
}

}  // namespace

std::span<const ForeignPath> foreign_paths() {
  return kPaths;
}

std::string_view instead_of(std::string_view path) {
  const auto* found =
      std::ranges::find_if(kPaths, [&](const ForeignPath& row) { return matches(row, path); });
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
  // The client puts /v1 in front, and the address that it was given ends in it.
  return tidy.starts_with("/v1/v1/") ? tidy.substr(3) : tidy;
}

}  // namespace millrace
