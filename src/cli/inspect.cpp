// millrace inspect: what a model file holds and what memory it needs, without loading the weights.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/command.h"
#include "cli/json_object.h"
#include "cli/model_options.h"
#include "cli/option_set.h"
#include "engine/memory_plan.h"
#include "kv/kv_memory.h"
#include "model/weights.h"

namespace millrace {
namespace {

struct InspectOptions {
  ModelOptions model;
  int max_sequences = 64;
  bool lists_metadata = false;
  bool lists_tensors = false;
  bool is_json = false;

  void declare(OptionSet& options) {
    model.declare(options);
    options.add("--max-sequences", max_sequences, 1, 4096, "As for serve");
    options.add("--metadata", lists_metadata, "Print every metadata key");
    options.add("--tensors", lists_tensors, "Print every tensor");
    options.add("--json", is_json, "Print one JSON object, with everything");
  }
};

struct TypeTotal {
  int64_t n_tensors = 0;
  int64_t n_values = 0;
  int64_t n_bytes = 0;
};

std::map<std::string, TypeTotal> totals_by_type(const GgufFile& file) {
  std::map<std::string, TypeTotal> totals;
  for (const TensorView& tensor : file.tensors()) {
    TypeTotal& total = totals[dtype_info(tensor.dtype).name];
    ++total.n_tensors;
    total.n_values += tensor.n_values();
    total.n_bytes += static_cast<int64_t>(tensor.data.size());
  }
  return totals;
}

std::string shape_text(const TensorView& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.n_dims; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ",", tensor.shape[static_cast<size_t>(i)]);
  }
  return text + "]";
}

Result<MemoryPlan> plan_of(const ModelFiles& files, const InspectOptions& options) {
  int64_t weight_bytes = 0;
  for (const TensorView& tensor : files.gguf->tensors()) {
    weight_bytes += static_cast<int64_t>(tensor.data.size());
  }
  const ModelSpec& spec = files.spec;
  const PageFormat format{default_kv_type(*files.gguf), spec.head_dim};
  MemoryPlanInput input;
  input.weight_bytes = weight_bytes;
  input.block_bytes = static_cast<int64_t>(kv_block_bytes(format, spec.n_layers, spec.n_kv_heads));
  input.free_bytes = std::max<int64_t>(0, free_memory_bytes() - weight_bytes);
  input.context_length = spec.context_length;
  input.max_sequences = options.max_sequences;
  input.max_model_len = options.model.max_model_len;
  if (options.model.kv_mebibytes) {
    input.kv_memory = *options.model.kv_mebibytes << 20;
  }
  return plan_memory(input);
}

// The lengths worth showing: powers of four up to the window, and the window.
std::vector<int64_t> shown_lengths(int64_t window) {
  std::vector<int64_t> lengths;
  for (int64_t length = 512; length < window; length *= 4) {
    lengths.push_back(length);
  }
  lengths.push_back(window);
  return lengths;
}

double megabytes(int64_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

void print_text(const ModelFiles& files,
                const InspectOptions& options,
                const Result<MemoryPlan>& plan) {
  const GgufFile& file = *files.gguf;
  const ModelSpec& spec = files.spec;
  fmt::print("{}: GGUF v{}, {} file{}, {:.1f} MB\n",
             files.name,
             file.version(),
             file.n_shards(),
             file.n_shards() == 1 ? "" : "s",
             megabytes(static_cast<int64_t>(file.file_bytes())));
  fmt::print("architecture {}: {} layers, width {}, {} heads, {} KV heads of {}, feed-forward {}\n",
             spec.architecture,
             spec.n_layers,
             spec.n_embd,
             spec.n_heads,
             spec.n_kv_heads,
             spec.head_dim,
             spec.n_ff);
  fmt::print("vocabulary {} tokens ({} logits), window {} tokens, {}\n",
             files.tokenizer->vocab_size(),
             spec.n_vocab,
             spec.context_length,
             files.chat_template ? "with a chat template"
             : files.chat_template_error.empty()
                 ? "no chat template"
                 : "chat template refused: " + files.chat_template_error);
  fmt::print("\ntensors\n");
  for (const auto& [name, total] : totals_by_type(file)) {
    fmt::print("  {:5} {:5} tensors {:10.1f} M values {:10.1f} MB\n",
               name,
               total.n_tensors,
               static_cast<double>(total.n_values) / 1e6,
               megabytes(total.n_bytes));
  }
  fmt::print("\nmemory plan\n");
  if (plan) {
    fmt::print("  weights          {:10.1f} MB\n", megabytes(plan->weight_bytes));
    fmt::print("  KV of a token    {:10.1f} kB ({} a value)\n",
               static_cast<double>(plan->kv_bytes_per_token()) / 1e3,
               kv_type_name(default_kv_type(file)));
    fmt::print("  KV cache         {:10.1f} MB, {} blocks of 64 tokens\n",
               megabytes(plan->kv_bytes()),
               plan->n_blocks);
    for (const int64_t length : shown_lengths(plan->max_model_len)) {
      fmt::print(
          "  {:7} tokens    {:6} sequences fit\n", length, plan->n_sequences_that_fit(length));
    }
  } else {
    fmt::print("  {}\n", plan.error().message);
  }
  if (options.lists_metadata) {
    fmt::print("\nmetadata\n");
    for (const GgufEntry& entry : file.metadata().entries()) {
      fmt::print("  {} = {}\n", entry.key, GgufMetadata::describe(entry.value));
    }
  }
  if (options.lists_tensors) {
    fmt::print("\nall tensors\n");
    for (const TensorView& tensor : file.tensors()) {
      fmt::print(
          "  {:5} {:18} {}\n", dtype_info(tensor.dtype).name, shape_text(tensor), tensor.name);
    }
  }
}

JsonObject plan_json(const MemoryPlan& plan) {
  std::string fits = "[";
  for (const int64_t length : shown_lengths(plan.max_model_len)) {
    JsonObject row;
    row.add("tokens", length).add("sequences", plan.n_sequences_that_fit(length));
    fits += (fits.size() == 1 ? "" : ",") + row.text();
  }
  JsonObject object;
  object.add("weight_bytes", plan.weight_bytes)
      .add("kv_bytes_per_token", plan.kv_bytes_per_token())
      .add("kv_bytes", plan.kv_bytes())
      .add("n_blocks", plan.n_blocks)
      .add("max_model_len", plan.max_model_len)
      .add_raw("fits", fits + "]");
  return object;
}

void print_json(const ModelFiles& files, const Result<MemoryPlan>& plan) {
  const GgufFile& file = *files.gguf;
  const ModelSpec& spec = files.spec;
  JsonObject shape;
  shape.add("architecture", spec.architecture)
      .add("layers", spec.n_layers)
      .add("embedding", spec.n_embd)
      .add("heads", spec.n_heads)
      .add("kv_heads", spec.n_kv_heads)
      .add("head_dim", spec.head_dim)
      .add("feed_forward", spec.n_ff)
      .add("logits", spec.n_vocab)
      .add("vocabulary", files.tokenizer->vocab_size())
      .add("context_length", spec.context_length);
  JsonObject metadata;
  for (const GgufEntry& entry : file.metadata().entries()) {
    metadata.add(entry.key, GgufMetadata::describe(entry.value));
  }
  std::string tensors = "[";
  for (const TensorView& tensor : file.tensors()) {
    JsonObject row;
    row.add("name", tensor.name)
        .add("type", dtype_info(tensor.dtype).name)
        .add_raw("shape", shape_text(tensor))
        .add("bytes", static_cast<int64_t>(tensor.data.size()));
    tensors += (tensors.size() == 1 ? "" : ",") + row.text();
  }
  JsonObject object;
  object.add("name", files.name)
      .add("version", file.version())
      .add("files", file.n_shards())
      .add("bytes", file.file_bytes())
      .add("shape", shape)
      .add("has_chat_template", files.chat_template != nullptr);
  if (plan) {
    object.add("memory", plan_json(*plan));
  } else {
    object.add("memory_error", plan.error().message);
  }
  object.add("metadata", metadata).add_raw("tensors", tensors + "]");
  fmt::print("{}\n", object.text());
}

}  // namespace

Result<int> inspect_command(Arguments arguments) {
  InspectOptions options;
  OptionSet set("inspect MODEL [options]",
                "Metadata, tensors and memory plan of a model; nothing is loaded.");
  options.declare(set);
  const auto outcome = set.parse(arguments);
  if (!outcome) {
    return propagate(outcome);
  }
  if (*outcome == OptionSet::Outcome::kHelpShown) {
    return 0;
  }
  const auto files = open_model(options.model.model);
  if (!files) {
    return propagate(files);
  }
  const auto plan = plan_of(*files, options);
  if (options.is_json) {
    print_json(*files, plan);
  } else {
    print_text(*files, options, plan);
  }
  return 0;
}

}  // namespace millrace
