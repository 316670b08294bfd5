#pragma once
// The sampler as its definition reads, for tests: sorts the whole vocabulary, draws every token's
// noise, adds everything up in double.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "sample/sampler.h"

namespace millrace {

class ReferenceSampler {
 public:
  explicit ReferenceSampler(const SampleInput& input)
      : params_(*input.params), logits_(input.logits.begin(), input.logits.end()) {
    shape(input);
    for (size_t i = 0; i < logits_.size(); ++i) {
      if (std::isfinite(logits_[i])) {
        survivors_.push_back(static_cast<TokenId>(i));
      }
    }
    const auto by_rank = [this](TokenId a, TokenId b) {
      return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
    };
    std::sort(survivors_.begin(), survivors_.end(), by_rank);
    if (params_.temperature >= kGreedyTemperature) {
      filter();
    }
  }

  // The tokens that can be drawn, best first.
  const std::vector<TokenId>& survivors() const { return survivors_; }

  // Their probabilities, in the same order.
  std::vector<double> probabilities() const {
    std::vector<double> p;
    for (const TokenId token : survivors_) {
      p.push_back(std::exp(z(token) - z(survivors_.front())));
    }
    const double total = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& value : p) {
      value /= total;
    }
    return p;
  }

  TokenId draw(uint64_t seed, int64_t position) const {
    if (params_.temperature < kGreedyTemperature) {
      return survivors_.front();
    }
    TokenId best = kNoToken;
    double best_score = -std::numeric_limits<double>::infinity();
    const NoiseKey key{seed, static_cast<uint64_t>(position)};
    for (const TokenId token : survivors_) {
      const double score = z(token) + gumbel(key, token);
      if (score > best_score || (score == best_score && token < best)) {
        best_score = score;
        best = token;
      }
    }
    return best;
  }

 private:
  float logit(TokenId token) const { return logits_[static_cast<size_t>(token)]; }
  double z(TokenId token) const { return double{logit(token)} / double{params_.temperature}; }

  void shape(const SampleInput& input) {
    const float none = -std::numeric_limits<float>::infinity();
    for (size_t i = 0; i < logits_.size() && !input.mask.empty(); ++i) {
      if ((input.mask[i / 32] >> (i % 32) & 1) == 0) {
        logits_[i] = none;
      }
    }
    for (const TokenId token : input.banned) {
      logits_[static_cast<size_t>(token)] = none;
    }
    for (const LogitBias& entry : params_.logit_bias) {
      logits_[static_cast<size_t>(entry.token)] += entry.bias;
    }
    if (input.history == nullptr) {
      return;
    }
    for (const TokenHistory::Entry& seen : input.history->entries()) {
      float& value = logits_[static_cast<size_t>(seen.token)];
      if (seen.is_in_prompt || seen.n_output > 0) {
        value = value > 0 ? value / params_.repetition_penalty : value * params_.repetition_penalty;
      }
      value -= static_cast<float>(seen.n_output) * params_.frequency_penalty;
      value -= seen.n_output > 0 ? params_.presence_penalty : 0;
    }
  }

  void filter() {
    if (params_.typical_p < 1) {
      filter_typical();
    }
    if (params_.min_p > 0) {
      const double top = z(survivors_.front());
      std::erase_if(survivors_, [&](TokenId token) {
        return std::exp(z(token) - top) < double{params_.min_p};
      });
    }
    if (params_.top_k > 0 && static_cast<size_t>(params_.top_k) < survivors_.size()) {
      survivors_.resize(static_cast<size_t>(params_.top_k));
    }
    if (params_.top_p < 1) {
      keep_prefix(probabilities(), params_.top_p);
    }
  }

  void filter_typical() {
    const std::vector<double> p = probabilities();
    double entropy = 0;
    for (const double value : p) {
      entropy -= value > 0 ? value * std::log(value) : 0;
    }
    std::vector<size_t> order(p.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto shift = [&](size_t i) { return std::abs(-std::log(p[i]) - entropy); };
    std::stable_sort(
        order.begin(), order.end(), [&](size_t a, size_t b) { return shift(a) < shift(b); });
    std::vector<double> ordered_p;
    std::vector<TokenId> ordered;
    for (const size_t i : order) {
      ordered_p.push_back(p[i]);
      ordered.push_back(survivors_[i]);
    }
    survivors_ = ordered;
    keep_prefix(ordered_p, params_.typical_p);
    std::sort(survivors_.begin(), survivors_.end(), [this](TokenId a, TokenId b) {
      return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
    });
  }

  void keep_prefix(const std::vector<double>& p, double mass) {
    double sum = 0;
    size_t n = 0;
    while (n < p.size() && sum < mass) {
      sum += p[n++];
    }
    survivors_.resize(std::max<size_t>(n, 1));
  }

  SamplingParams params_;
  std::vector<float> logits_;
  std::vector<TokenId> survivors_;
};

}  // namespace millrace
