#pragma once
// What one step is to do and what came of it, as values: a step can be logged, replayed and tested
// without a model.

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace millrace {

using SequenceId = uint64_t;  // in order of arrival

// Tokens [begin, begin + count) of one sequence. Prefill chunk, decode and draft verification are
// the same thing.
struct SpanPlan {
  SequenceId sequence = 0;
  int64_t begin = 0;
  int64_t count = 0;
  int64_t n_drafts = 0;      // of count: guesses, to be verified by sampling behind each token
  int64_t n_logits = 0;      // rows wanted, for the last n_logits tokens
  bool is_sampling = false;  // the last row gives the sequence its next token
  int64_t n_new_blocks = 0;  // at the end of its block table
  int64_t first_block = 0;   // its block table is StepPlan::blocks[first_block, +n_blocks)
  int64_t n_blocks = 0;
};

// KV to copy before anything is computed.
struct BlockCopy {
  BlockId from = 0;
  BlockId to = 0;
};

// Blocks of a waiting sequence to be filled from a tier. StepPlan::blocks[first_block, +n_held)
// hold what comes before, the next n_new are to be filled.
struct LoadPlan {
  SequenceId sequence = 0;
  int64_t first_block = 0;
  int64_t n_held = 0;
  int64_t n_new = 0;
};

struct StepPlan {
  std::vector<SequenceId> preempted;  // give all blocks back and wait
  std::vector<SequenceId> admitted;   // start running, from where the cache ends
  std::vector<SequenceId> overtaken;  // wait although one behind them starts; once for each
  std::vector<SpanPlan> spans;
  std::vector<LoadPlan> loads;
  std::vector<BlockId> blocks;  // the block tables of all spans and loads
  std::vector<BlockCopy> copies;
  int64_t n_tokens = 0;
  int64_t n_logits = 0;

  bool is_empty() const { return spans.empty() && preempted.empty() && loads.empty(); }
  std::span<const BlockId> blocks_to_load(const LoadPlan& load) const {
    return std::span(blocks).subspan(static_cast<size_t>(load.first_block + load.n_held),
                                     static_cast<size_t>(load.n_new));
  }
};

// A whole block that a sequence has got, from the cache or by computing it, and that can be found.
struct WholeBlock {
  SequenceId sequence = 0;
  int64_t index = 0;  // in the sequence
  BlockId block = 0;
};

// What became of a span, in the order of StepPlan::spans.
struct SpanResult {
  int64_t n_appended =
      0;  // tokens that the sequence grew by; with drafts, one more than were right
  bool is_finished = false;  // it needs nothing more, for whatever reason
  bool is_failed = false;    // finished, and what was computed is not to be used again
};

}  // namespace millrace
