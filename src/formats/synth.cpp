#include "formats/synth.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/cpu_info.h"
#include "base/worker_pool.h"
#include "formats/gguf_writer.h"
#include "formats/rope_factors.h"
#include "formats/synth_vocab.h"
#include "formats/synth_weights.h"

namespace millrace {
namespace {

// Published hyperparameters; they differ from ModelShape's defaults in what each line names.
ModelShape qwen3_shape(
    const char* name, int n_layers, int n_embd, int n_heads, int n_ff, bool tied) {
  ModelShape shape;
  shape.name = name;
  shape.architecture = "qwen3";
  shape.tokenizer_pre = "qwen2";
  shape.n_layers = n_layers;
  shape.n_embd = n_embd;
  shape.n_heads = n_heads;
  shape.n_kv_heads = 8;
  shape.head_dim = 128;
  shape.n_ff = n_ff;
  shape.n_vocab = 151936;
  shape.context_length = 40960;
  shape.rms_eps = 1e-6f;
  shape.rope_base = 1e6f;
  shape.is_tied = tied;
  shape.has_qk_norm = true;
  return shape;
}

ModelShape llama3_shape(const char* name,
                        int n_layers,
                        int n_embd,
                        int head_dim,
                        int n_ff,
                        float rope_factor,
                        bool tied) {
  ModelShape shape;
  shape.name = name;
  shape.n_layers = n_layers;
  shape.n_embd = n_embd;
  shape.n_heads = 32;
  shape.n_kv_heads = 8;
  shape.head_dim = head_dim;
  shape.n_ff = n_ff;
  shape.n_vocab = 128256;
  shape.context_length = 131072;
  shape.rope_base = 5e5f;
  shape.is_tied = tied;
  shape.rope_scaling = RopeScaling::kLlama3;
  shape.rope_factor = rope_factor;
  shape.rope_original_context = 8192;
  return shape;
}

ModelShape smollm2_135m_shape() {
  ModelShape shape;
  shape.name = "smollm2-135m";
  shape.tokenizer_pre = "smollm";
  shape.n_layers = 30;
  shape.n_embd = 576;
  shape.n_heads = 9;
  shape.n_kv_heads = 3;
  shape.head_dim = 64;
  shape.n_ff = 1536;
  shape.n_vocab = 49152;
  shape.context_length = 8192;
  shape.rope_base = 1e5f;
  shape.is_tied = true;
  return shape;
}

// One tensor of the file: random, or given values (rope_freqs).
struct PlannedTensor {
  std::string name;
  RandomTensor random;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

class Plan {
 public:
  explicit Plan(const ModelShape& shape) : shape_(shape) {}

  std::vector<PlannedTensor> make() {
    const int64_t n_embd = shape_.n_embd;
    add_matrix("token_embd.weight", n_embd, shape_.n_vocab);
    if (!shape_.is_tied || has_pattern()) {
      add_matrix("output.weight", n_embd, shape_.n_vocab);
    }
    if (has_pattern()) {
      RandomTensor& head = tensors_.back().random;
      head.source_stream = tensors_.front().random.stream;
      head.shift = kPatternStep % shape_.n_vocab;
      head.own_share = 1 - shape_.pattern_share;
    }
    add_norm("output_norm.weight", n_embd);
    if (shape_.rope_scaling == RopeScaling::kLlama3) {
      add_rope_freqs();
    }
    for (int layer = 0; layer < shape_.n_layers; ++layer) {
      add_layer("blk." + std::to_string(layer) + ".");
    }
    return std::move(tensors_);
  }

 private:
  bool has_pattern() const { return shape_.pattern_share > 0; }

  void add_layer(const std::string& prefix) {
    const int64_t n_embd = shape_.n_embd;
    const int64_t q_dim = int64_t{shape_.n_heads} * shape_.head_dim;
    const int64_t kv_dim = int64_t{shape_.n_kv_heads} * shape_.head_dim;
    add_norm(prefix + "attn_norm.weight", n_embd);
    add_matrix(prefix + "attn_q.weight", n_embd, q_dim);
    add_matrix(prefix + "attn_k.weight", n_embd, kv_dim);
    add_matrix(prefix + "attn_v.weight", n_embd, kv_dim);
    add_branch_end(prefix + "attn_output.weight", q_dim, n_embd);
    if (shape_.has_qkv_bias) {
      add_vector(prefix + "attn_q.bias", q_dim, 0.0f, shape_.bias_std);
      add_vector(prefix + "attn_k.bias", kv_dim, 0.0f, shape_.bias_std);
      add_vector(prefix + "attn_v.bias", kv_dim, 0.0f, shape_.bias_std);
    }
    if (shape_.has_output_bias) {
      add_vector(prefix + "attn_output.bias", n_embd, 0.0f, shape_.bias_std);
    }
    if (shape_.has_qk_norm) {
      add_norm(prefix + "attn_q_norm.weight", shape_.head_dim);
      add_norm(prefix + "attn_k_norm.weight", shape_.head_dim);
    }
    add_norm(prefix + "ffn_norm.weight", n_embd);
    add_matrix(prefix + "ffn_gate.weight", n_embd, shape_.n_ff);
    add_matrix(prefix + "ffn_up.weight", n_embd, shape_.n_ff);
    add_branch_end(prefix + "ffn_down.weight", shape_.n_ff, n_embd);
  }

  void add(std::string name, RandomTensor random, std::vector<int64_t> dims) {
    random.stream = static_cast<uint32_t>(tensors_.size());
    tensors_.push_back({std::move(name), random, std::move(dims), {}});
  }
  void add_matrix(std::string name, int64_t n_in, int64_t n_out) {
    const DType dtype = synth_fallback(shape_.dtype, n_in);
    add(std::move(name), {0, dtype, n_in, n_out, 0.0f, shape_.matrix_std}, {n_in, n_out});
  }
  // What a layer adds to the stream: nothing where a pattern is planted.
  void add_branch_end(std::string name, int64_t n_in, int64_t n_out) {
    add_matrix(std::move(name), n_in, n_out);
    if (has_pattern()) {
      tensors_.back().random.deviation = 0;
    }
  }
  void add_vector(std::string name, int64_t n, float mean, float deviation) {
    add(std::move(name), {0, DType::kF32, n, 1, mean, deviation}, {n});
  }
  void add_norm(std::string name, int64_t n) {
    add_vector(std::move(name), n, 1.0f, shape_.norm_std);
  }

  void add_rope_freqs() {
    add_vector("rope_freqs.weight", shape_.head_dim / 2, 1.0f, 0.0f);
    const Llama3Scaling scaling = {
        .factor = shape_.rope_factor,
        .low_freq_factor = shape_.rope_low_freq_factor,
        .high_freq_factor = shape_.rope_high_freq_factor,
        .original_context = static_cast<double>(shape_.rope_original_context),
    };
    tensors_.back().values = llama3_rope_factors(scaling, shape_.rope_base, shape_.head_dim);
  }

  const ModelShape& shape_;
  std::vector<PlannedTensor> tensors_;
};

void add_rope_metadata(const ModelShape& shape, GgufBuilder& builder) {
  const std::string prefix = shape.architecture + ".rope.";
  builder.add(prefix + "dimension_count", static_cast<uint32_t>(shape.head_dim));
  builder.add(prefix + "freq_base", shape.rope_base);
  if (shape.rope_scaling == RopeScaling::kLinear) {
    builder.add(prefix + "scaling.type", "linear");
    builder.add(prefix + "scaling.factor", shape.rope_factor);
  } else if (shape.rope_scaling == RopeScaling::kYarn) {
    builder.add(prefix + "scaling.type", "yarn");
    builder.add(prefix + "scaling.factor", shape.rope_factor);
    builder.add(prefix + "scaling.original_context_length",
                static_cast<uint32_t>(shape.rope_original_context));
  }
}

void add_model_metadata(const ModelShape& shape, GgufBuilder& builder) {
  const std::string prefix = shape.architecture + ".";
  builder.add("general.architecture", shape.architecture);
  builder.add("general.name", shape.name);
  builder.add("general.file_type", dtype_info(shape.dtype).file_type);
  builder.add("general.quantization_version", uint32_t{2});
  builder.add(prefix + "block_count", static_cast<uint32_t>(shape.n_layers));
  builder.add(prefix + "context_length", static_cast<uint32_t>(shape.context_length));
  builder.add(prefix + "embedding_length", static_cast<uint32_t>(shape.n_embd));
  builder.add(prefix + "feed_forward_length", static_cast<uint32_t>(shape.n_ff));
  builder.add(prefix + "attention.head_count", static_cast<uint32_t>(shape.n_heads));
  builder.add(prefix + "attention.head_count_kv", static_cast<uint32_t>(shape.n_kv_heads));
  builder.add(prefix + "attention.key_length", static_cast<uint32_t>(shape.head_dim));
  builder.add(prefix + "attention.value_length", static_cast<uint32_t>(shape.head_dim));
  builder.add(prefix + "attention.layer_norm_rms_epsilon", shape.rms_eps);
  builder.add(prefix + "vocab_size", static_cast<uint32_t>(shape.n_vocab));
  add_rope_metadata(shape, builder);
}

Result<void> check_shape(const ModelShape& shape) {
  const int n_tokens = shape.n_tokens == 0 ? shape.n_vocab : shape.n_tokens;
  if (shape.has_tokenizer && (n_tokens < kMinSynthTokens || n_tokens > shape.n_vocab)) {
    return fail(ErrorCode::kInvalidArgument,
                "[synth] a tokenizer of {} tokens does not fit: expected {} to {}",
                n_tokens,
                kMinSynthTokens,
                shape.n_vocab);
  }
  if (dtype_info(shape.dtype).encode == nullptr) {
    return fail(
        ErrorCode::kInvalidArgument, "[synth] {} cannot be encoded", dtype_info(shape.dtype).name);
  }
  return {};
}

}  // namespace

std::vector<ModelShape> synth_shapes() {
  return {
      qwen3_shape("qwen3-0.6b", 28, 1024, 16, 3072, true),
      qwen3_shape("qwen3-1.7b", 28, 2048, 16, 6144, true),
      qwen3_shape("qwen3-8b", 36, 4096, 32, 12288, false),
      llama3_shape("llama3.2-1b", 16, 2048, 64, 8192, 32.0f, true),
      llama3_shape("llama3.1-8b", 32, 4096, 128, 14336, 8.0f, false),
      smollm2_135m_shape(),
  };
}

Result<ModelShape> synth_shape(std::string_view name) {
  std::string names;
  for (const ModelShape& shape : synth_shapes()) {
    if (name == shape.name) {
      return shape;
    }
    names += (names.empty() ? "" : ", ") + shape.name;
  }
  return fail(ErrorCode::kInvalidArgument, "'{}' is not one of the shapes {}", name, names);
}

int64_t count_parameters(const ModelShape& shape) {
  int64_t n = 0;
  for (const PlannedTensor& tensor : Plan(shape).make()) {
    if (tensor.values.empty()) {
      n += tensor.random.n_in * tensor.random.n_rows;
    }
  }
  return n;
}

DType synth_fallback(DType dtype, int64_t n_in) {
  if (n_in % dtype_info(dtype).block_size == 0) {
    return dtype;
  }
  static constexpr std::pair<DType, DType> kPlainTypes[] = {{DType::kQ2_K, DType::kQ4_0},
                                                            {DType::kQ3_K, DType::kQ4_0},
                                                            {DType::kQ4_K, DType::kQ5_0},
                                                            {DType::kQ5_K, DType::kQ5_1},
                                                            {DType::kQ6_K, DType::kQ8_0}};
  for (const auto& [from, plain] : kPlainTypes) {
    if (from == dtype && n_in % dtype_info(plain).block_size == 0) {
      return plain;
    }
  }
  return DType::kF16;
}

Result<void> write_random_model(const std::string& path,
                                const ModelShape& shape,
                                uint64_t seed,
                                int n_threads,
                                const SynthProgress& progress) {
  if (auto checked = check_shape(shape); !checked) {
    return checked;
  }
  GgufBuilder builder;
  add_model_metadata(shape, builder);
  if (shape.has_tokenizer) {
    const int n_tokens = shape.n_tokens == 0 ? shape.n_vocab : shape.n_tokens;
    add_tokenizer_metadata(make_synth_vocabulary(shape.tokenizer_pre, n_tokens), builder);
  }
  const std::vector<PlannedTensor> tensors = Plan(shape).make();
  for (const PlannedTensor& tensor : tensors) {
    builder.add_tensor(tensor.name, tensor.random.dtype, tensor.shape);
  }
  auto writer = GgufWriter::create(path, builder);
  if (!writer) {
    return propagate(writer);
  }

  int64_t bytes_done = builder.header_bytes();
  const int64_t bytes_total = bytes_done + builder.data_bytes();
  const WriteBytes write = [&](std::span<const std::byte> bytes) -> Result<void> {
    if (auto done = writer->write(bytes); !done) {
      return done;
    }
    bytes_done += static_cast<int64_t>(bytes.size());
    if (progress && !progress(bytes_done, bytes_total)) {
      return fail(ErrorCode::kCancelled, "[synth] stopped: {} was not written", path);
    }
    return {};
  };
  const NormalStream normals(seed);
  WorkerPool pool(n_threads);
  for (const PlannedTensor& tensor : tensors) {
    auto done = tensor.values.empty() ? generate_tensor(normals, tensor.random, pool, write)
                                      : write(std::as_bytes(std::span(tensor.values)));
    if (!done) {
      return done;
    }
  }
  if (progress) {
    progress(bytes_total, bytes_total);
  }
  return writer->finish();
}

Result<void> write_synth_model(const std::string& path,
                               const SynthOptions& options,
                               const SynthProgress& progress) {
  auto shape = synth_shape(options.shape);
  if (!shape) {
    return propagate(shape);
  }
  shape->dtype = options.dtype;
  shape->pattern_share = options.pattern_share;
  if (options.n_layers > 0) {
    shape->n_layers = options.n_layers;
    shape->name += fmt::format("-{}-layers", options.n_layers);
  }
  const int n_threads =
      options.n_threads > 0 ? options.n_threads : default_thread_count(read_cpu_info());
  return write_random_model(path, *shape, options.seed, n_threads, progress);
}

}  // namespace millrace
