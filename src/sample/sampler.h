#pragma once
// From a row of logits to a token: one function of (logits, parameters, history, seed, position,
// mask). A Sampler is only scratch memory, so each worker owns one and any of them gives the same
// answer.

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "sample/logprob.h"
#include "sample/noise.h"
#include "sample/row_scan.h"
#include "sample/sampling_params.h"
#include "sample/token_history.h"

namespace millrace {

struct SampleInput {
  std::span<float> logits =
      {};  // [n_vocab of the tokenizer]: head rows beyond it are cut off; scratch
  // The largest of every 32 logits, NaN where one of them is not a finite number, as the head left
  // them; those of tokens that are cut off may count. Empty: they are looked for.
  std::span<const float> panel_maxima = {};
  const SamplingParams* params = nullptr;
  const TokenHistory* history = nullptr;  // may be null when no penalty is set
  uint64_t seed = 0;
  int64_t position = 0;  // of the token to draw within its sequence
  std::span<const uint32_t> mask =
      {};  // bit t % 32 of word t / 32: token t is allowed; empty: all are
  std::span<const TokenId> banned = {};  // never drawn; end tokens before min_tokens
  int n_logprobs = -1;                   // -1 none, 0 of the chosen token, up to kMaxTopLogprobs
};

struct SampledToken {
  TokenId token = kNoToken;
  float logprob = 0;                 // when n_logprobs >= 0
  std::vector<TopLogprob> top = {};  // best first
};

// Does the parameter set look at the history?
bool uses_history(const SamplingParams& params);

class Sampler {
 public:
  // n_vocab: of the rows to come, so that none of them allocates; 0: not known.
  explicit Sampler(kernels::Isa isa = kernels::detect_isa(), int64_t n_vocab = 0);
  static int64_t scratch_bytes(int64_t n_vocab);

  // The order is: log probabilities of the raw row, mask, logit bias, repetition, frequency and
  // presence penalties, temperature, typical, min-p, top-k, top-p, draw. The logits are
  // overwritten. kInternal: a logit is NaN or infinite, or mask and bans leave no token.
  Result<SampledToken> sample(const SampleInput& input);

  // The log probability of a given token, and the n_top best, of a raw row: prompt log
  // probabilities. kInternal as above.
  Result<SampledToken> score(std::span<const float> logits,
                             std::span<const float> panel_maxima,
                             TokenId token,
                             int n_top);

 private:
  struct Candidate {
    float logit = 0;
    TokenId token = kNoToken;
    double weight = 0;  // exp(tempered logit - largest tempered logit of the row)
  };
  struct RawLogit {
    TokenId token = kNoToken;
    float logit = 0;
  };
  struct Row;  // the logits of this call and what is known of them

  static bool ranks_before(const Candidate& a, const Candidate& b);

  Result<void> open(std::span<const float> logits, std::span<const float> panel_maxima, Row& row);
  bool find_maxima(const Row& row, std::span<const float> panel_maxima);
  double find_log_sum(Row& row);
  std::vector<TopLogprob> find_top(const Row& row, int n_top, double log_sum);
  float raw_logit(const Row& row, TokenId token) const;

  Result<void> shape(const SampleInput& input, Row& row);
  void apply_mask(std::span<float> logits, std::span<const uint32_t> mask);
  void apply_penalties(std::span<float> logits,
                       const SamplingParams& params,
                       const TokenHistory& history);
  void set_logit(std::span<float> logits, TokenId token, float logit);
  void refresh_maxima(Row& row, bool is_masked);

  TokenId find_largest(const Row& row) const;
  TokenId draw(const Row& row, const SamplingParams& params, NoiseKey key);
  void gather(const Row& row, double least_logit);
  float kth_largest_maximum(const Row& row, int64_t k);
  void weigh(const Row& row);
  double mass() const;
  void keep_best(int64_t k);
  void keep_min_p(double min_p);
  template <class Before>
  void keep_mass(double mass, Before before);
  void gather_typical(const Row& row, double typical_p);
  void gather_top_p(const Row& row, double top_p);
  TokenId draw_from_candidates(const Row& row, NoiseKey key) const;
  TokenId draw_from_row(const Row& row, NoiseKey key) const;

  const RowScan& scan_;
  std::vector<float> maxima_;          // one per block of 64 logits
  std::vector<float> ranked_maxima_;   // scratch of kth_largest_maximum
  std::vector<RawLogit> changed_;      // tokens whose logit was shaped, with the model's own
  std::vector<Candidate> candidates_;  // the survivors so far
};

}  // namespace millrace
