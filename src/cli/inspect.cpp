// millrace inspect: what a model holds and what memory it needs, without loading the weights.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/human_bytes.h"
#include "cli/command.h"
#include "cli/json_object.h"
#include "cli/model_options.h"
#include "cli/option_set.h"
#include "engine/memory_plan.h"
#include "kv/block_pool.h"

namespace millrace {
namespace {

struct InspectOptions {
  ModelOptions model;
  std::optional<std::string> draft;
  int max_sequences = 64;
  bool lists_metadata = false;
  bool lists_tensors = false;
  bool is_json = false;

  void declare(OptionSet& options) {
    model.declare(options);
    options.add(
        "--max-sequences", max_sequences, 1, kMaxSequences, "Answers made at the same time");
    options.add("--draft", draft, "A draft model to plan for too; default: none");
    options.add("--metadata",
                lists_metadata,
                "Print every metadata key (long values cut; --json has them whole)");
    options.add("--tensors", lists_tensors, "Print every tensor");
    options.add("--json", is_json, "Print one JSON object, with everything");
  }
};

struct TypeTotal {
  int64_t n_tensors = 0;
  int64_t n_values = 0;
  int64_t n_bytes = 0;
};

std::map<std::string, TypeTotal> totals_by_type(const Checkpoint& file) {
  std::map<std::string, TypeTotal> totals;
  for (const TensorView& tensor : file.tensors()) {
    TypeTotal& total = totals[dtype_info(tensor.dtype).name];
    ++total.n_tensors;
    total.n_values += tensor.n_values();
    total.n_bytes += static_cast<int64_t>(tensor.data.size());
  }
  return totals;
}

std::vector<int64_t> shape_of(const TensorView& tensor) {
  return {tensor.shape.begin(), tensor.shape.begin() + tensor.n_dims};
}

// The plan of serve with the same options; kResourceExhausted is what does not fit.
Result<MemoryPlan> plan_of(const ModelFiles& files, const InspectOptions& options) {
  EngineOptions base;
  base.max_sequences = options.max_sequences;
  const auto draft = open_draft(options.draft);
  if (!draft) {
    return propagate(draft);
  }
  return plan_engine(files, options.model, std::move(base), *draft);
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

std::string size_text(int64_t bytes) {
  return human_bytes(static_cast<uint64_t>(bytes));
}

void print_plan(const ModelFiles& files, const Result<MemoryPlan>& plan) {
  fmt::print("\nmemory plan\n");
  if (!plan) {
    fmt::print("  does not fit; serve with these options refuses: {}\n", plan.error().message);
    return;
  }
  fmt::print("  weights          {:>10}, packed for the kernels\n", size_text(plan->weight_bytes));
  fmt::print("  scratch, logits  {:>10}\n", size_text(plan->scratch_bytes + plan->logits_bytes));
  fmt::print("  tables           {:>10}, at most\n", size_text(plan->table_bytes));
  fmt::print("  KV of a token    {:>10} ({} a value)\n",
             size_text(plan->kv_bytes_per_token()),
             kv_type_name(plan->kv_type));
  fmt::print("  KV cache         {:>10}, {} of {} tokens\n",
             size_text(plan->kv_bytes()),
             counted(plan->n_blocks, "block"),
             kBlockTokens);
  fmt::print("  all together     {:>10}\n", size_text(plan->total_bytes()));
  for (const int64_t length : shown_lengths(plan->max_model_len)) {
    const int64_t n = plan->n_sequences_that_fit(length);
    fmt::print("  {:7} tokens    {:6} {}\n", length, n, n == 1 ? "sequence fits" : "sequences fit");
  }
  if (plan->max_model_len < files.spec.context_length) {
    fmt::print("  answers end at {} tokens, the model's window is {}\n",
               plan->max_model_len,
               files.spec.context_length);
  }
}

void print_text(const ModelFiles& files,
                const InspectOptions& options,
                const Result<MemoryPlan>& plan) {
  const Checkpoint& file = *files.checkpoint;
  const ModelSpec& spec = files.spec;
  fmt::print("{}: {}, {}, {}\n",
             files.name,
             file.format_text(),
             counted(file.n_shards(), "file"),
             human_bytes(file.file_bytes()));
  fmt::print("architecture {}: {}, width {}, {}, {} of {}, feed-forward {}\n",
             spec.architecture,
             counted(spec.n_layers, "layer"),
             spec.n_embd,
             counted(spec.n_heads, "head"),
             counted(spec.n_kv_heads, "KV head"),
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
    fmt::print("  {:5} {:5} {:7} {:10.1f} M values {:>10}\n",
               name,
               total.n_tensors,
               total.n_tensors == 1 ? "tensor" : "tensors",
               static_cast<double>(total.n_values) / 1e6,
               size_text(total.n_bytes));
  }
  print_plan(files, plan);
  if (options.lists_metadata) {
    fmt::print("\nmetadata\n");
    for (const GgufEntry& entry : file.metadata().entries()) {
      fmt::print("  {} = {}\n", entry.key, GgufMetadata::describe(entry.value));
    }
  }
  if (options.lists_tensors) {
    fmt::print("\nall tensors\n");
    for (const TensorView& tensor : file.tensors()) {
      fmt::print("  {:5} {:18} {}\n",
                 dtype_info(tensor.dtype).name,
                 fmt::format("[{}]", fmt::join(shape_of(tensor), ",")),
                 tensor.name);
    }
  }
}

JsonObject plan_json(const MemoryPlan& plan) {
  std::vector<JsonObject> fits;
  for (const int64_t length : shown_lengths(plan.max_model_len)) {
    fits.emplace_back().add("tokens", length).add("sequences", plan.n_sequences_that_fit(length));
  }
  JsonObject object;
  object.add("weight_bytes", plan.weight_bytes)
      .add("scratch_bytes", plan.scratch_bytes)
      .add("logits_bytes", plan.logits_bytes)
      .add("table_bytes", plan.table_bytes)
      .add("total_bytes", plan.total_bytes())
      .add("kv_type", kv_type_name(plan.kv_type))
      .add("kv_bytes_per_token", plan.kv_bytes_per_token())
      .add("kv_bytes", plan.kv_bytes())
      .add("n_blocks", plan.n_blocks)
      .add("max_model_len", plan.max_model_len)
      .add("fits", fits);
  return object;
}

// A value of a type that T holds, or an array of them.
template <class T>
void add_values(const GgufMetadata& metadata, const GgufEntry& entry, JsonObject& object) {
  if (!entry.value.is_array()) {
    object.add(entry.key, *metadata.get<T>(entry.key));
    return;
  }
  const auto values = metadata.get<std::vector<T>>(entry.key);
  object.add(entry.key, std::vector<T>(values->begin(), values->end()));
}

// Whole, however long: what is cut for people is not cut for machines.
void add_metadata(const GgufMetadata& metadata, const GgufEntry& entry, JsonObject& object) {
  switch (entry.value.element_type) {
    case GgufType::kString:
      return add_values<std::string_view>(metadata, entry, object);
    case GgufType::kBool:
      return add_values<bool>(metadata, entry, object);
    case GgufType::kFloat32:
      return add_values<float>(metadata, entry, object);
    case GgufType::kFloat64:
      return add_values<double>(metadata, entry, object);
    case GgufType::kUint64:
      return add_values<uint64_t>(metadata, entry, object);
    default:
      return add_values<int64_t>(metadata, entry, object);
  }
}

void print_json(const ModelFiles& files, const Result<MemoryPlan>& plan) {
  const Checkpoint& file = *files.checkpoint;
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
    add_metadata(file.metadata(), entry, metadata);
  }
  std::vector<JsonObject> tensors;
  for (const TensorView& tensor : file.tensors()) {
    tensors.emplace_back()
        .add("name", tensor.name)
        .add("type", dtype_info(tensor.dtype).name)
        .add("shape", shape_of(tensor))
        .add("bytes", tensor.data.size());
  }
  JsonObject object;
  const bool is_gguf = file.format() == CheckpointFormat::kGguf;
  object.add("name", files.name).add("format", is_gguf ? "gguf" : "safetensors");
  if (is_gguf) {
    object.add("version", file.version());
  }
  object.add("files", file.n_shards())
      .add("bytes", file.file_bytes())
      .add("shape", shape)
      .add("has_chat_template", files.chat_template != nullptr)
      .add("fits_memory", plan.has_value());
  if (plan) {
    object.add("memory", plan_json(*plan));
  } else {
    object.add("memory_error", plan.error().message);
  }
  object.add("metadata", metadata).add("tensors", tensors);
  fmt::print("{}\n", object.text());
}

Result<int> inspect(const InspectOptions& options) {
  const auto files = open_model(options.model.model);
  if (!files) {
    return propagate(files);
  }
  const auto plan = plan_of(*files, options);
  if (!plan && plan.error().code != ErrorCode::kResourceExhausted) {
    return propagate(plan);
  }
  if (options.is_json) {
    print_json(*files, plan);
  } else {
    print_text(*files, options, plan);
  }
  return 0;
}

}  // namespace

Result<int> inspect_command(Arguments arguments) {
  InspectOptions options;
  OptionSet set(
      "inspect MODEL [options]",
      "Metadata, tensors and memory plan of a model; nothing is loaded. The plan is that "
      "of serve with the same options. One that does not fit is part of the answer and no "
      "error: the listing says so, as does fits_memory in --json, and the exit status "
      "is 0.");
  options.declare(set);
  return set.run(arguments, [&] { return inspect(options); });
}

}  // namespace millrace
