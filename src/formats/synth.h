#pragma once
// Random models for benchmarks without weights and for tests: GGUF files with the shapes, names and
// tokenizer metadata of real ones and seeded random weights. Any thread.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace millrace {

enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kYarn };

// The hyperparameters of a dense decoder as its authors publish them.
struct ModelShape {
  std::string name = "tiny";
  std::string architecture = "llama";       // general.architecture: llama, qwen2, qwen3
  std::string tokenizer_pre = "llama-bpe";  // tokenizer.ggml.pre: llama-bpe, qwen2, smollm
  int n_layers = 2;
  int n_embd = 64;
  int n_heads = 4;
  int n_kv_heads = 2;
  int head_dim = 16;
  int n_ff = 128;
  int n_vocab = 320;  // rows of the embedding and of the head
  int n_tokens = 0;   // tokens in the tokenizer, at most n_vocab; 0: n_vocab
  int context_length = 2048;
  float rms_eps = 1e-5f;
  float rope_base = 10000.0f;
  bool is_tied = false;          // no output.weight
  bool has_qkv_bias = false;     // Qwen 2
  bool has_output_bias = false;  // attn_output.bias (Llama with attention_bias)
  bool has_qk_norm = false;      // Qwen 3
  RopeScaling rope_scaling = RopeScaling::kNone;
  float rope_factor = 1.0f;            // linear, llama3, yarn
  float rope_low_freq_factor = 1.0f;   // llama3: written as the tensor rope_freqs.weight
  float rope_high_freq_factor = 4.0f;  // llama3
  int rope_original_context = 0;       // llama3, yarn
  DType dtype = DType::kF32;           // of every matrix; norms, biases and rope_freqs are F32
  bool has_tokenizer = true;           // needs n_tokens >= kMinSynthTokens
  // Weights are normal with these deviations; norms around 1, all else around 0.
  float matrix_std = 0.02f;
  float norm_std = 0.0f;
  float bias_std = 0.02f;
  // A planted pattern: behind token t comes t + kPatternStep, for this share of the tokens, and
  // behind the others something else. The layers then add nothing to it and take their time. The
  // head is a matrix of its own. 0: none.
  double pattern_share = 0;
};

// Coprime to the published numbers of tokens: it takes all of them to come back to the first.
inline constexpr int kPatternStep = 7919;

inline constexpr int kMinSynthTokens = 264;  // 256 bytes and the control tokens

// qwen3-0.6b, qwen3-1.7b, qwen3-8b, llama3.2-1b, llama3.1-8b, smollm2-135m.
std::vector<ModelShape> synth_shapes();
Result<ModelShape> synth_shape(std::string_view name);  // kInvalidArgument lists the names

// Values of all weights, without rope_freqs: the number that model cards state.
int64_t count_parameters(const ModelShape& shape);

struct SynthOptions {
  std::string shape = "qwen3-0.6b";
  DType dtype = DType::kQ8_0;
  uint64_t seed = 1;
  int n_threads = 0;         // 0: all processors; the file does not depend on it
  int n_layers = 0;          // 0: those of the shape
  double pattern_share = 0;  // see ModelShape
};
// Called now and then with bytes of the file, whose size is bytes_total. False stops the writing.
using SynthProgress = std::function<bool(int64_t bytes_done, int64_t bytes_total)>;

// Errors: kInvalidArgument (unknown shape, a type that cannot be encoded, a path that is no file),
// kIo, kCancelled (stopped by progress). After an error the path is as it was before.
Result<void> write_synth_model(const std::string& path,
                               const SynthOptions& options,
                               const SynthProgress& progress = {});

// The same for any shape. A matrix whose rows are not whole blocks of shape.dtype takes
// synth_fallback(dtype, n_in) instead.
Result<void> write_random_model(const std::string& path,
                                const ModelShape& shape,
                                uint64_t seed,
                                int n_threads = 1,
                                const SynthProgress& progress = {});

// dtype when n_in is a multiple of its block, else the nearest plain type (Q2_K, Q3_K: Q4_0; Q4_K:
// Q5_0; Q5_K: Q5_1; Q6_K: Q8_0), else F16.
DType synth_fallback(DType dtype, int64_t n_in);

}  // namespace millrace
