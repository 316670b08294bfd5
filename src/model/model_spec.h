#pragma once
// What the decoder needs to know about a model, read once from the metadata of a checkpoint. Plain
// data, any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace millrace {

class Checkpoint;

// Which two values of a head one rotation turns.
enum class RotaryStyle : uint8_t {
  kAdjacent,   // (0,1), (2,3), ...: llama files, whose q and k rows were permuted for it
  kHalfSplit,  // (0,d/2), (1,d/2+1), ...
};

enum class RopeScalingType : uint8_t { kNone, kLinear, kYarn };

struct RopeSpec {
  RotaryStyle style = RotaryStyle::kAdjacent;
  RopeScalingType scaling = RopeScalingType::kNone;
  bool has_factors = false;  // rope_freqs.weight divides every frequency (Llama 3.1)
  double base = 10000.0;
  double factor = 1.0;                  // linear and yarn: positions shrink by it
  int64_t original_context_length = 0;  // yarn
  double attention_factor = 1.0;        // yarn: multiplies cosine and sine
  double beta_fast = 32.0;              // yarn: rotations above which a frequency is kept
  double beta_slow = 1.0;               // yarn: rotations below which it is interpolated
};

struct ModelSpec {
  std::string architecture;  // general.architecture
  std::string name;          // general.name, may be empty
  int n_layers = 0;
  int n_embd = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int n_ff = 0;
  int n_vocab = 0;          // rows of the head: the width of a logits row
  int tokenizer_vocab = 0;  // tokens the file's tokenizer knows, at most n_vocab; 0: none in file
  int64_t context_length = 0;
  float rms_eps = 0;
  RopeSpec rope;
  bool has_qk_norm = false;  // RMSNorm on every head of q and k before the rotation
  bool has_qkv_bias = false;
  bool has_output_bias = false;  // on the attention output projection
  bool is_tied = false;          // the head is the embedding table

  int n_query() const { return n_heads * head_dim; }       // width of q and of the attention output
  int n_key() const { return n_kv_heads * head_dim; }      // width of k and of v
  int group_size() const { return n_heads / n_kv_heads; }  // query heads that share a KV head
};

// Reads the metadata and checks that the tensors are exactly those the decoder uses, each with the
// shape it expects. Errors: kUnsupported names the architecture or feature (and lists the known
// ones), kCorrupt names a missing, misshaped or unexpected tensor with both shapes, or a bad value.
Result<ModelSpec> read_model_spec(const Checkpoint& file);

// "llama", "qwen2", ...
std::vector<std::string> known_architectures();

// A tensor the decoder wants; shape innermost first, as in GGUF.
struct ExpectedTensor {
  std::string name;
  int64_t n_in = 0;
  int64_t n_out = 1;  // 1: a vector
};

// Everything a file of this spec must hold, in the order of the graph.
std::vector<ExpectedTensor> expected_tensors(const ModelSpec& spec);

}  // namespace millrace
