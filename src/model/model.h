#pragma once
// The dense decoder: weights, scratch and the forward pass. Owned by the engine thread, which is
// the only caller; phases run on the worker pool.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/types.h"
#include "kernels/isa.h"
#include "kernels/kv_page.h"
#include "kv/kv_memory.h"
#include "model/model_spec.h"

namespace millrace {

class Checkpoint;
class WorkerPool;

// Consecutive tokens of one sequence: a prefill chunk, one decoded token, or drafts to verify.
struct Span {
  std::span<const TokenId> tokens;  // each in [0, n_vocab)
  int64_t position = 0;             // of tokens[0]; KV of all earlier positions is in the blocks
  std::span<const BlockId> blocks;  // block table; covers position + tokens.size() tokens
  int n_logits = 0;                 // rows wanted, for the last n_logits tokens; 0: none
};

// One step: spans of different sequences, in any order.
struct Batch {
  std::span<const Span> spans;
};

// Most tokens that one step may have.
inline constexpr int kMaxBatchTokens = 65536;

struct LoadOptions {
  kernels::Isa isa = kernels::detect_isa();
  WorkerPool* pool = nullptr;  // outlives the model; required
  // Absent: F32 for F32 and F16 weight files, BF16 for others.
  std::optional<KvType> kv_type = std::nullopt;
  int max_batch_tokens = 512;  // scratch is sized for it; forward takes no more
  // Called on the loading thread after every matrix that has been packed; bytes that they take in
  // the file, in the end all of them.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> progress = {};
};

class Model {
 public:
  // Checks metadata and tensors (read_model_spec) and packs the matrices on the pool. The embedding
  // table is read from the file row by row, so `file` outlives the model; its other pages are given
  // back while loading. Errors: as read_model_spec, page_format and LinearWeights::pack;
  // kInvalidArgument: max_batch_tokens is not 1 .. kMaxBatchTokens; kCorrupt: a norm, bias or
  // factor is no number that can be used; kResourceExhausted: no memory for weights or scratch.
  static Result<std::unique_ptr<Model>> load(const Checkpoint& file, const LoadOptions& options);
  ~Model();

  const ModelSpec& spec() const;
  kernels::Isa isa() const;
  PageFormat page_format() const;
  int64_t n_head_panels() const { return n_head_panels(spec()); }
  static int64_t n_head_panels(const ModelSpec& spec);  // of 32 logits, the last may be shorter
  int max_batch_tokens() const;
  // Packed weights, norms and, when not tied, the embedding table.
  size_t weight_bytes() const;
  // Buffers of forward(), allocated by load().
  size_t scratch_bytes() const;

  // Writes K and V of every token into the blocks and the wanted rows into logits
  // [sum of n_logits, n_vocab], in the order of the spans. A row depends on its own sequence's
  // tokens only: bit for bit the same in any batch, chunking and thread count.
  // maxima: empty, or room for [sum of n_logits, n_head_panels()]: the largest of every 32 logits
  // of a row, NaN where one is not a finite number.
  void forward(const Batch& batch,
               KvMemory& kv,
               std::span<float> logits,
               std::span<float> maxima = {});

 private:
  Model();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
