#include "sample/sampler.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace millrace {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// Blocks that draw_from_row compares with one best score, which is raised between chunks.
constexpr int64_t kDrawChunk = 256;

// Covers the rounding of float weights and scales, see RowScan::contenders.
constexpr double kContenderSlack = 1 + 1e-4;

// Covers that of a score, in nats.
constexpr double kScoreSlack = 1e-6;

// The running best of a draw: larger score first, then the lower id.
struct BestScore {
  double score = kMinusInfinity;
  TokenId token = kNoToken;

  void offer(double other_score, TokenId other) {
    if (other_score > score || (other_score == score && other < token)) {
      score = other_score;
      token = other;
    }
  }
};

// The least finite float that is not below x.
float least_float_from(double x) {
  if (x <= -FLT_MAX) return -FLT_MAX;
  const auto nearest = static_cast<float>(x);
  return nearest < x ? std::nextafter(nearest, std::numeric_limits<float>::infinity()) : nearest;
}

}  // namespace

struct Sampler::Row {
  std::span<const float> logits;
  int64_t n_blocks = 0;
  float largest = 0;
  double temperature = 1;
  double sum_of_weights = 0;  // at temperature 1, of the row as it is; 0: not known

  double tempered(float logit) const { return static_cast<double>(logit) / temperature; }
  double nats_below_best(float logit) const { return tempered(largest) - tempered(logit); }
  double logit_below_best(double nats) const { return largest - nats * temperature; }
  ScanTemperature scan_temperature() const {
    return {.largest = largest, .inverse = static_cast<float>(1 / temperature)};
  }
  int64_t size() const { return static_cast<int64_t>(logits.size()); }
};

bool uses_history(const SamplingParams& params) {
  return params.repetition_penalty != 1 || params.frequency_penalty != 0 ||
         params.presence_penalty != 0;
}

Sampler::Sampler(kernels::Isa isa, int64_t n_vocab) : scan_(row_scan(isa)) {
  const auto n = static_cast<size_t>(n_vocab);
  maxima_.reserve(n / kScanBlock + 1);
  ranked_maxima_.reserve(n / kScanBlock + 1);
  candidates_.reserve(n);
}

// All tokens may be candidates.
int64_t Sampler::scratch_bytes(int64_t n_vocab) {
  return n_vocab * int64_t{sizeof(Candidate)} +
         2 * (n_vocab / kScanBlock + 1) * int64_t{sizeof(float)};
}

bool Sampler::ranks_before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

Result<SampledToken> Sampler::sample(const SampleInput& input) {
  Row row;
  if (auto opened = open(input.logits, input.panel_maxima, row); !opened) {
    return propagate(opened);
  }
  SampledToken sampled;
  double log_sum = 0;
  if (input.n_logprobs >= 0) {
    log_sum = find_log_sum(row);
    sampled.top = find_top(row, input.n_logprobs, log_sum);
  }
  if (auto shaped = shape(input, row); !shaped) {
    return propagate(shaped);
  }
  sampled.token = draw(
      row, *input.params, {.seed = input.seed, .position = static_cast<uint64_t>(input.position)});
  if (input.n_logprobs >= 0) {
    sampled.logprob = static_cast<float>(raw_logit(row, sampled.token) - log_sum);
  }
  return sampled;
}

Result<SampledToken> Sampler::score(std::span<const float> logits,
                                    std::span<const float> panel_maxima,
                                    TokenId token,
                                    int n_top) {
  Row row;
  if (auto opened = open(logits, panel_maxima, row); !opened) {
    return propagate(opened);
  }
  const double log_sum = find_log_sum(row);
  return SampledToken{.token = token,
                      .logprob = static_cast<float>(logits[static_cast<size_t>(token)] - log_sum),
                      .top = find_top(row, n_top, log_sum)};
}

Result<void> Sampler::open(std::span<const float> logits,
                           std::span<const float> panel_maxima,
                           Row& row) {
  MR_CHECK(!logits.empty());
  row.logits = logits;
  row.n_blocks = (row.size() + kScanBlock - 1) / kScanBlock;
  maxima_.resize(static_cast<size_t>(row.n_blocks));
  changed_.clear();
  if (!find_maxima(row, panel_maxima)) {
    return fail(ErrorCode::kInternal,
                "[sample] the model gave a logit that is not a finite number");
  }
  row.largest = *std::max_element(maxima_.begin(), maxima_.end());
  return {};
}

// False if a logit is not a finite number.
bool Sampler::find_maxima(const Row& row, std::span<const float> panel_maxima) {
  if (panel_maxima.empty()) {
    return scan_.block_maxima(row.logits.data(), row.size(), maxima_.data());
  }
  const int64_t n_whole = row.size() / kScanBlock;
  MR_CHECK(std::ssize(panel_maxima) >= 2 * n_whole,
           "{} maxima of 32 for {} logits",
           panel_maxima.size(),
           row.size());
  const bool is_finite = scan_.pair_maxima(panel_maxima.data(), n_whole, maxima_.data());
  if (n_whole == row.n_blocks) {
    return is_finite;
  }
  // A panel of the last block may hold logits that are cut off.
  const int64_t begin = n_whole * kScanBlock;
  return scan_.block_maxima(row.logits.data() + begin,
                            row.size() - begin,
                            &maxima_[static_cast<size_t>(n_whole)]) &&
         is_finite;
}

// log of the sum of exp(logit) over the row.
double Sampler::find_log_sum(Row& row) {
  row.sum_of_weights = scan_.sum_of_weights(
      row.logits.data(), row.size(), maxima_.data(), {.largest = row.largest, .inverse = 1});
  return static_cast<double>(row.largest) + std::log(row.sum_of_weights);
}

std::vector<TopLogprob> Sampler::find_top(const Row& row, int n_top, double log_sum) {
  std::vector<TopLogprob> top;
  if (n_top > 0) {
    gather(row, kth_largest_maximum(row, n_top));
    keep_best(n_top);
    std::sort(candidates_.begin(), candidates_.end(), ranks_before);
    for (const Candidate& best : candidates_) {
      top.push_back({best.token, static_cast<float>(best.logit - log_sum)});
    }
  }
  return top;
}

// What the model itself said about a token, whatever was done to the row since.
float Sampler::raw_logit(const Row& row, TokenId token) const {
  for (const RawLogit& raw : changed_) {
    if (raw.token == token) {
      return raw.logit;
    }
  }
  return row.logits[static_cast<size_t>(token)];
}

// Mask, bans, logit bias, penalties, in this order.
Result<void> Sampler::shape(const SampleInput& input, Row& row) {
  const SamplingParams& params = *input.params;
  if (!input.mask.empty()) {
    apply_mask(input.logits, input.mask);
  }
  for (const TokenId token : input.banned) {
    set_logit(input.logits, token, static_cast<float>(kMinusInfinity));
  }
  for (const LogitBias& entry : params.logit_bias) {
    set_logit(
        input.logits, entry.token, input.logits[static_cast<size_t>(entry.token)] + entry.bias);
  }
  if (input.history != nullptr && uses_history(params)) {
    apply_penalties(input.logits, params, *input.history);
  }
  if (!input.mask.empty() || !changed_.empty()) {
    refresh_maxima(row, !input.mask.empty());
    row.sum_of_weights = 0;
  }
  if (row.largest == kMinusInfinity) {
    return fail(ErrorCode::kInternal, "[sample] mask and bans leave no token to draw");
  }
  row.temperature = params.temperature;
  return {};
}

void Sampler::apply_mask(std::span<float> logits, std::span<const uint32_t> mask) {
  MR_CHECK(mask.size() * 32 >= logits.size(), "mask {} logits {}", mask.size(), logits.size());
  for (size_t word = 0; word * 32 < logits.size(); ++word) {
    const uint32_t bits = mask[word];
    if (bits == ~uint32_t{0}) {
      continue;
    }
    const size_t end = std::min(logits.size(), word * 32 + 32);
    for (size_t i = word * 32; i < end; ++i) {
      if ((bits >> (i % 32) & 1) == 0) {
        logits[i] = static_cast<float>(kMinusInfinity);
      }
    }
  }
}

void Sampler::apply_penalties(std::span<float> logits,
                              const SamplingParams& params,
                              const TokenHistory& history) {
  for (const TokenHistory::Entry& seen : history.entries()) {
    if (!seen.is_in_prompt && seen.n_output == 0) {
      continue;
    }
    float logit = logits[static_cast<size_t>(seen.token)];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    if (seen.n_output > 0) {
      logit -= static_cast<float>(seen.n_output) * params.frequency_penalty;
      logit -= params.presence_penalty;
    }
    set_logit(logits, seen.token, std::min(logit, FLT_MAX));
  }
}

void Sampler::set_logit(std::span<float> logits, TokenId token, float logit) {
  changed_.push_back({token, logits[static_cast<size_t>(token)]});
  logits[static_cast<size_t>(token)] = logit;
}

// Infinities are our own by now, so the answers of block_maxima do not matter.
void Sampler::refresh_maxima(Row& row, bool is_masked) {
  if (is_masked || std::ssize(changed_) > row.n_blocks) {
    static_cast<void>(scan_.block_maxima(row.logits.data(), row.size(), maxima_.data()));
  } else {
    for (const RawLogit& raw : changed_) {
      const int64_t block = raw.token / kScanBlock;
      const int64_t begin = block * kScanBlock;
      static_cast<void>(scan_.block_maxima(row.logits.data() + begin,
                                           std::min(row.size() - begin, kScanBlock),
                                           &maxima_[static_cast<size_t>(block)]));
    }
  }
  row.largest = *std::max_element(maxima_.begin(), maxima_.end());
}

// The first of them.
TokenId Sampler::find_largest(const Row& row) const {
  const auto block = std::find(maxima_.begin(), maxima_.end(), row.largest) - maxima_.begin();
  const auto begin = row.logits.begin() + block * kScanBlock;
  return static_cast<TokenId>(std::find(begin, row.logits.end(), row.largest) - row.logits.begin());
}

TokenId Sampler::draw(const Row& row, const SamplingParams& params, NoiseKey key) {
  if (params.temperature < kGreedyTemperature) {
    return find_largest(row);
  }
  const bool has_top_k = params.top_k > 0 && params.top_k < row.size();
  if (params.typical_p < 1) {
    gather_typical(row, params.typical_p);
  } else if (has_top_k || params.min_p > 0) {
    double least = has_top_k ? kth_largest_maximum(row, params.top_k) : kMinusInfinity;
    if (params.min_p > 0) {
      // A little lower than exact, keep_min_p decides.
      least = std::max(least, row.logit_below_best(1e-3 - std::log(double{params.min_p})));
    }
    gather(row, least);
    weigh(row);
  } else if (params.top_p < 1) {
    gather_top_p(row, params.top_p);
    return draw_from_candidates(row, key);
  } else {
    return draw_from_row(row, key);
  }
  if (params.min_p > 0) {
    keep_min_p(params.min_p);
  }
  if (has_top_k) {
    keep_best(params.top_k);
  }
  if (params.top_p < 1) {
    keep_mass(params.top_p * mass(), ranks_before);
  }
  return draw_from_candidates(row, key);
}

// Makes the tokens with at least this logit the candidates, in order of their ids.
void Sampler::gather(const Row& row, double least_logit) {
  candidates_.clear();
  const float least = least_float_from(least_logit);
  for (int64_t block = 0; block < row.n_blocks; ++block) {
    if (maxima_[static_cast<size_t>(block)] < least) {
      continue;
    }
    TokenId tokens[kScanBlock];
    const int64_t begin = block * kScanBlock;
    const int64_t end = std::min(row.size(), begin + kScanBlock);
    const int64_t n = scan_.at_least(row.logits.data(), begin, end, least, tokens);
    for (int64_t i = 0; i < n; ++i) {
      candidates_.push_back(
          {.logit = row.logits[static_cast<size_t>(tokens[i])], .token = tokens[i]});
    }
  }
}

// At least k tokens lie at or above it: a bound that gathers little more than k of a real row.
float Sampler::kth_largest_maximum(const Row& row, int64_t k) {
  if (k > row.n_blocks) {
    return static_cast<float>(kMinusInfinity);
  }
  ranked_maxima_ = maxima_;
  const auto kth = ranked_maxima_.begin() + (k - 1);
  std::nth_element(ranked_maxima_.begin(), kth, ranked_maxima_.end(), std::greater<>());
  return *kth;
}

void Sampler::weigh(const Row& row) {
  for (Candidate& candidate : candidates_) {
    candidate.weight = std::exp(-row.nats_below_best(candidate.logit));
  }
}

double Sampler::mass() const {
  double sum = 0;
  for (const Candidate& candidate : candidates_) {
    sum += candidate.weight;
  }
  return sum;
}

void Sampler::keep_best(int64_t k) {
  if (static_cast<int64_t>(candidates_.size()) > k) {
    std::nth_element(candidates_.begin(), candidates_.begin() + k, candidates_.end(), ranks_before);
    candidates_.resize(static_cast<size_t>(k));
  }
}

void Sampler::keep_min_p(double min_p) {
  double largest = 0;
  for (const Candidate& candidate : candidates_) {
    largest = std::max(largest, candidate.weight);
  }
  std::erase_if(candidates_,
                [&](const Candidate& candidate) { return candidate.weight < min_p * largest; });
}

// Keeps the shortest prefix of the candidates in the given order whose weights reach the mass.
// Halves the range that holds the crossing until it is short enough to sort.
template <class Before>
void Sampler::keep_mass(double mass, Before before) {
  constexpr int64_t kSortable = 256;
  const auto first = candidates_.begin();
  int64_t begin = 0;
  auto end = static_cast<int64_t>(candidates_.size());
  double kept = 0;  // mass of [0, begin)
  while (end - begin > kSortable) {
    const int64_t middle = begin + (end - begin) / 2;
    std::nth_element(first + begin, first + middle, first + end, before);
    double half = 0;
    for (int64_t i = begin; i < middle; ++i) {
      half += candidates_[static_cast<size_t>(i)].weight;
    }
    if (kept + half >= mass) {
      end = middle;
    } else {
      kept += half;
      begin = middle;
    }
  }
  std::sort(first + begin, first + end, before);
  while (begin < end && kept < mass) {
    kept += candidates_[static_cast<size_t>(begin++)].weight;
  }
  candidates_.resize(static_cast<size_t>(std::max<int64_t>(begin, 1)));
}

// Locally typical: the tokens whose surprise is nearest to the entropy, up to the mass.
void Sampler::gather_typical(const Row& row, double typical_p) {
  gather(row, row.logit_below_best(kNoiseSpan));
  weigh(row);
  const double total = mass();
  double mean = 0;  // of nats_below_best: entropy less a constant that every surprise has too
  for (const Candidate& candidate : candidates_) {
    mean += candidate.weight * row.nats_below_best(candidate.logit) / total;
  }
  keep_mass(typical_p * total, [&](const Candidate& a, const Candidate& b) {
    const double shift_a = std::abs(row.nats_below_best(a.logit) - mean);
    const double shift_b = std::abs(row.nats_below_best(b.logit) - mean);
    return shift_a != shift_b ? shift_a < shift_b : ranks_before(a, b);
  });
}

// Top-p over the whole row: looks at ever more of its head until that holds the mass.
void Sampler::gather_top_p(const Row& row, double top_p) {
  const bool is_known = row.temperature == 1 && row.sum_of_weights > 0;
  const double sum =
      is_known ? row.sum_of_weights
               : scan_.sum_of_weights(
                     row.logits.data(), row.size(), maxima_.data(), row.scan_temperature());
  const double target = top_p * sum;
  for (const double nats : {4.0, 8.0, 16.0, kNoiseSpan}) {
    gather(row, row.logit_below_best(nats));
    weigh(row);
    if (mass() >= target) {
      break;
    }
  }
  keep_mass(target, ranks_before);
}

// Candidates of a block are neighbours unless they were ranked; neighbours share its noise.
TokenId Sampler::draw_from_candidates(const Row& row, NoiseKey key) const {
  const double best_tempered = row.tempered(row.largest);
  BestScore best;
  double scale = std::numeric_limits<double>::infinity();
  int64_t block = -1;
  uint32_t block_high = 0;
  BlockNoise noise;  // of the block, once a candidate may win
  bool has_noise = false;
  for (const Candidate& candidate : candidates_) {
    if (candidate.token / kNoiseBlock != block) {
      block = candidate.token / kNoiseBlock;
      block_high = noise_bits(key, block, kBlockHigh);
      has_noise = false;
    }
    const double weight = candidate.weight * scale;
    if (weight * kNoiseBlock < least_winning_weight(block_high)) {
      continue;
    }
    if (!has_noise) {
      noise = block_noise(key, block, block_high);
      has_noise = true;
    }
    if (candidate.token != noise.first_token &&
        weight < least_winning_weight(noise_bits(key, candidate.token, kTokenHigh))) {
      continue;
    }
    best.offer(row.tempered(candidate.logit) + gumbel(key, noise, candidate.token),
               candidate.token);
    scale = std::exp(best_tempered - best.score) * kContenderSlack;
  }
  return best.token;
}

// All tokens compete. Nearly all blocks cannot win, by their largest logit and their high noise
// word; in one that can, so it is with its tokens.
TokenId Sampler::draw_from_row(const Row& row, NoiseKey key) const {
  BestScore best;
  const auto scale = [&] {
    const double nats = row.tempered(row.largest) - best.score;
    return static_cast<float>(std::exp(nats) * kContenderSlack);
  };
  const auto offer = [&](const BlockNoise& noise, TokenId token) {
    const float logit = row.logits[static_cast<size_t>(token)];
    best.offer(row.tempered(logit) + gumbel(key, noise, token), token);
  };
  const auto offer_block = [&](int64_t block) {
    const BlockNoise noise = block_noise(key, block);
    const double most = row.tempered(maxima_[static_cast<size_t>(block)]) + noise.largest();
    if (most < best.score - kScoreSlack) {
      return;
    }
    if (noise.first_token < row.size()) {
      offer(noise, noise.first_token);
    }
    TokenId tokens[kScanBlock];
    const int64_t begin = block * kScanBlock;
    const int64_t end = std::min(row.size(), begin + kScanBlock);
    const int64_t n = scan_.contenders(
        row.logits.data(), begin, end, row.scan_temperature(), key, kTokenHigh, scale(), tokens);
    for (int64_t i = 0; i < n; ++i) {
      offer(noise, tokens[i]);
    }
  };
  const TokenId likeliest = find_largest(row);
  offer(block_noise(key, likeliest / kNoiseBlock), likeliest);
  for (int64_t begin = 0; begin < row.n_blocks; begin += kDrawChunk) {
    TokenId blocks[kDrawChunk];
    const int64_t n = scan_.contenders(maxima_.data(),
                                       begin,
                                       std::min(row.n_blocks, begin + kDrawChunk),
                                       row.scan_temperature(),
                                       key,
                                       kBlockHigh,
                                       kNoiseBlock * scale(),
                                       blocks);
    for (int64_t i = 0; i < n; ++i) {
      offer_block(blocks[i]);
    }
  }
  return best.token;
}

}  // namespace millrace
