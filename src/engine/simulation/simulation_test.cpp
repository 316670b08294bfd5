#include "engine/simulation/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace millrace {
namespace {

using testing::HasSubstr;

SimulationOptions small_simulation(int64_t n_blocks) {
  return {
      .limits = {.n_blocks = n_blocks, .max_sequences = 8, .max_logits = 128},
      .max_waiting = 1'000'000,
      .cost = {.step = 0.01, .token = 0.001, .decode_attention = 2e-6, .prompt_attention = 1e-6},
      .first_token_limit = 2,
      .inter_token_limit = 0.05,
      .steps_between_checks = 1};
}

// Prompts that begin alike, now and then the same one again. Lengths in tokens, of 64 an id.
std::vector<TraceRequest> random_trace(uint32_t seed, int n_requests, double seconds_between) {
  std::mt19937 random(seed);
  std::vector<TraceRequest> requests;
  double now = 0;
  for (int i = 0; i < n_requests; ++i) {
    TraceRequest request;
    request.tokens_per_id = 64;
    if (!requests.empty() && random() % 3 != 0) {
      const TraceRequest& other = requests[random() % requests.size()];
      request.hash_ids.assign(
          other.hash_ids.begin(),
          other.hash_ids.begin() + static_cast<int64_t>(1 + random() % other.hash_ids.size()));
    }
    for (int n_new = static_cast<int>(random() % 8); n_new > 0 || request.hash_ids.empty();
         --n_new) {
      request.hash_ids.push_back(1'000 * i + n_new);
    }
    request.n_prompt =
        std::ssize(request.hash_ids) * 64 - static_cast<int64_t>(random() % 2 * (random() % 64));
    request.n_answer = 1 + random() % 90;
    now += seconds_between * static_cast<double>(1 + random() % 3);
    request.arrival = now;
    requests.push_back(request);
  }
  return requests;
}

Result<SimulationReport> run(const SimulationOptions& options,
                             const std::vector<TraceRequest>& requests) {
  size_t n = 0;
  return simulate(options, [&]() -> Result<std::optional<TraceRequest>> {
    return n < requests.size() ? std::optional(requests[n++]) : std::nullopt;
  });
}

int64_t n_answer_tokens(const std::vector<TraceRequest>& requests) {
  int64_t n = 0;
  for (const TraceRequest& request : requests) {
    n += request.n_answer;
  }
  return n;
}

TEST(Simulation, one_request_takes_what_the_cost_of_its_steps_adds_up_to) {
  const SimulationOptions options = small_simulation(20);
  // 300 tokens are chunks of 256 and 44, then two decodes.
  const TraceRequest request{.arrival = 5, .n_prompt = 300, .n_answer = 3, .hash_ids = {1}};
  const auto report = run(options, {request});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->n_finished, 1);
  EXPECT_EQ(report->n_steps, 4);
  const double prefill = 2 * 0.01 + 300 * 0.001 + 1e-6 * 300 * 301 / 2;
  const double first_gap = 0.01 + 0.001 + 2e-6 * 301;
  const double second_gap = 0.01 + 0.001 + 2e-6 * 302;
  EXPECT_NEAR(report->seconds, prefill + first_gap + second_gap, 1e-9);
  EXPECT_NEAR(report->first_token.percentile(0.5), prefill, 1e-3 * prefill);
  EXPECT_NEAR(report->first_token.largest(), prefill, 1e-9);
  EXPECT_NEAR(report->inter_token.largest(), second_gap, 1e-9);
  EXPECT_EQ(report->inter_token.n(), 2);
  EXPECT_EQ(report->n_good, 1);
}

TEST(Simulation, what_is_good_is_decided_by_both_limits) {
  SimulationOptions options = small_simulation(20);
  const TraceRequest request{.n_prompt = 300, .n_answer = 3, .hash_ids = {1}};
  options.first_token_limit = 0.3;  // it takes 0.36
  EXPECT_EQ(run(options, {request})->n_good, 0);
  options.first_token_limit = 0.4;
  EXPECT_EQ(run(options, {request})->n_good, 1);
  options.inter_token_limit = 0.011;
  EXPECT_EQ(run(options, {request})->n_good, 0);
}

TEST(Simulation, the_rate_scales_arrivals_and_not_the_work) {
  SimulationOptions options = small_simulation(100);
  const std::vector<TraceRequest> requests = random_trace(3, 40, 10);  // one at a time
  const auto as_it_is = run(options, requests);
  options.rate_scale = 0.5;
  const auto slower = run(options, requests);
  EXPECT_EQ(slower->n_steps, as_it_is->n_steps);
  EXPECT_EQ(slower->counters.n_cached_tokens, as_it_is->counters.n_cached_tokens);
  EXPECT_GT(slower->seconds, 1.9 * as_it_is->seconds);
  EXPECT_NEAR(slower->first_token.percentile(0.9),
              as_it_is->first_token.percentile(0.9),
              2e-3 * as_it_is->first_token.percentile(0.9));
}

// One request at a time and room for all of them: what the cache holds is every prompt and every
// answer but its last token, and none of the answers begins like a prompt.
TEST(Simulation, finds_what_a_search_through_all_earlier_prompts_finds) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const std::vector<TraceRequest> requests = random_trace(seed, 60, 1'000);
    int64_t n_expected = 0;
    std::vector<std::vector<TokenId>> before;
    for (const TraceRequest& request : requests) {
      const std::vector<TokenId> tokens = prompt_tokens(request);
      int64_t n_longest = 0;
      for (const std::vector<TokenId>& other : before) {
        n_longest =
            std::max<int64_t>(n_longest, std::ranges::mismatch(tokens, other).in1 - tokens.begin());
      }
      n_expected += std::min(n_longest, std::ssize(tokens) - 1);
      before.push_back(tokens);
    }
    const auto report = run(small_simulation(4'000), requests);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_GT(n_expected, 0);
    EXPECT_EQ(report->counters.n_cached_tokens, n_expected) << "seed " << seed;
    EXPECT_EQ(report->counters.n_preemptions, 0);
  }
}

TEST(Simulation, the_same_input_gives_the_same_report) {
  for (const int64_t n_blocks : {14, 40, 400}) {
    const std::vector<TraceRequest> requests = random_trace(7, 150, 0.3);
    const auto numbers = [&] {
      const auto report = run(small_simulation(n_blocks), requests);
      const SchedulerCounters& counters = report->counters;
      return std::tuple(std::vector<int64_t>{report->n_finished,
                                             report->n_too_long,
                                             report->n_good,
                                             report->n_steps,
                                             report->n_overtakings,
                                             counters.n_cached_tokens,
                                             counters.n_preemptions,
                                             counters.n_recomputed_tokens,
                                             counters.n_merged_blocks},
                        std::vector<double>{report->seconds,
                                            report->first_token.percentile(0.5),
                                            report->first_token.largest(),
                                            report->inter_token.percentile(0.99),
                                            report->whole.largest()});
    };
    EXPECT_EQ(numbers(), numbers());
  }
}

TEST(Simulation, more_memory_never_gives_fewer_answers_and_all_that_fit_are_finished) {
  const std::vector<TraceRequest> requests = random_trace(11, 120, 0.1);
  int64_t n_before = 0;
  bool has_refused = false;
  bool has_preempted = false;
  for (int64_t n_blocks = 4; n_blocks <= 512; n_blocks += 1 + n_blocks / 4) {
    const auto report = run(small_simulation(n_blocks), requests);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->n_requests, 120);
    EXPECT_EQ(report->n_finished, 120 - report->n_too_long);
    EXPECT_GE(report->n_finished, n_before) << n_blocks << " blocks";
    EXPECT_EQ(report->first_token.n(), report->n_finished);
    EXPECT_EQ(report->inter_token.n(), report->n_answer_tokens - report->n_finished);
    n_before = report->n_finished;
    has_refused = has_refused || report->n_too_long > 0;
    has_preempted = has_preempted || report->counters.n_recomputed_tokens > 0;
  }
  EXPECT_EQ(n_before, 120);
  EXPECT_TRUE(has_refused);
  EXPECT_TRUE(has_preempted);
}

TEST(Simulation, without_the_cache_nothing_is_found_and_everything_is_computed) {
  SimulationOptions options = small_simulation(400);
  options.limits.has_prefix_cache = false;
  const std::vector<TraceRequest> requests = random_trace(5, 80, 0.2);
  const auto report = run(options, requests);
  EXPECT_EQ(report->counters.n_cached_tokens, 0);
  EXPECT_EQ(report->n_answer_tokens, n_answer_tokens(requests));
  EXPECT_EQ(report->hit_rate(), 0);
  const auto cached = run(small_simulation(400), requests);
  EXPECT_GT(cached->hit_rate(), 0.2);
  EXPECT_LT(cached->first_token.percentile(0.5), report->first_token.percentile(0.5));
}

TEST(Simulation, a_full_queue_turns_away_and_the_rest_is_finished) {
  SimulationOptions options = small_simulation(30);
  options.max_waiting = 3;
  options.limits.max_sequences = 2;
  const std::vector<TraceRequest> requests = random_trace(13, 100, 0);  // all at once
  const auto report = run(options, requests);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->n_requests, 100);
  EXPECT_EQ(report->n_finished, 3);
  EXPECT_EQ(report->n_turned_away, 97);
  // Who has started is not in the queue any more.
  EXPECT_EQ(run(options, random_trace(13, 100, 100))->n_finished, 100);
}

TEST(Simulation, a_limit_for_steps_bounds_the_gaps_between_tokens) {
  std::vector<TraceRequest> requests;
  for (int i = 0; i < 20; ++i) {  // all different
    requests.push_back({.arrival = 2.0 * i, .n_prompt = 2'000, .n_answer = 400});
    for (int64_t id = 0; id < 4; ++id) {
      requests.back().hash_ids.push_back(i * 10 + id);
    }
  }
  SimulationOptions options = small_simulation(2'000);
  options.max_step_seconds = 10;
  const double free = run(options, requests)->inter_token.percentile(0.99);
  options.max_step_seconds = 0.08;
  const double limited = run(options, requests)->inter_token.percentile(0.99);
  EXPECT_GT(free, 0.2);
  EXPECT_LT(limited, 0.12);
}

const KeyReport& report_of(const SimulationReport& report, const std::string& key) {
  return *std::ranges::find(report.keys, key, &KeyReport::key);
}

TEST(Simulation, what_is_told_of_keys_adds_up_to_the_whole) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    std::vector<TraceRequest> requests = random_trace(seed, 120, 0.05);
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].key = std::string(1, static_cast<char>('a' + (i * i + seed) % 5));
    }
    SimulationOptions options = small_simulation(40);
    options.max_waiting = 30;
    options.limits.fair_quantum = seed % 2 == 0 ? 512 : 0;
    const auto report = run(options, requests);
    ASSERT_TRUE(report) << report.error().message;
    ASSERT_GT(report->keys.size(), 1U);
    EXPECT_GT(report->n_refused(), 0);
    KeyReport sum;
    for (const KeyReport& key : report->keys) {
      EXPECT_EQ(key.n_requests, std::ranges::count(requests, key.key, &TraceRequest::key));
      sum.n_requests += key.n_requests;
      sum.n_finished += key.n_finished;
      sum.n_good += key.n_good;
      sum.n_started += key.n_started;
    }
    EXPECT_EQ(sum.n_requests, report->n_requests);
    EXPECT_EQ(sum.n_finished, report->n_finished);
    EXPECT_EQ(sum.n_good, report->n_good);
    EXPECT_EQ(sum.n_started, report->first_token.n());
  }
}

TEST(Simulation, with_fairness_a_key_waits_less_for_the_flood_of_another) {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    std::vector<TraceRequest> requests = random_trace(seed, 100, 0);  // all at once
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].key = i >= 90 ? "few" : "many";
    }
    SimulationOptions options = small_simulation(200);
    const auto unfair = run(options, requests);
    options.limits.fair_quantum = 512;
    const auto fair = run(options, requests);
    ASSERT_TRUE(unfair && fair);
    EXPECT_EQ(fair->n_finished, unfair->n_finished);
    EXPECT_LT(2 * report_of(*fair, "few").mean_first_token(),
              report_of(*unfair, "few").mean_first_token())
        << "seed " << seed;
  }
}

TEST(Simulation, filled_steps_compute_as_many_prompt_tokens_as_fit) {
  SimulationOptions options = small_simulation(2'000);
  std::vector<TraceRequest> requests;
  for (int i = 0; i < 20; ++i) {  // all different
    requests.push_back({.arrival = 0.5 * i, .n_prompt = 2'000, .n_answer = 100});
    for (int64_t id = 0; id < 4; ++id) {
      requests.back().hash_ids.push_back(i * 10 + id);
    }
  }
  const auto paced = run(options, requests);
  options.limits.fills_steps = true;
  const auto filled = run(options, requests);
  ASSERT_TRUE(paced && filled);
  EXPECT_EQ(filled->n_answer_tokens, paced->n_answer_tokens);
  EXPECT_LT(filled->n_steps, paced->n_steps);
  EXPECT_LT(filled->seconds, paced->seconds);
  EXPECT_GT(filled->inter_token.percentile(0.99), 2 * paced->inter_token.percentile(0.99));
}

TEST(Simulation, an_error_of_the_trace_ends_it) {
  int n = 0;
  const auto report = simulate(small_simulation(10), [&]() -> Result<std::optional<TraceRequest>> {
    if (++n == 3) {
      return fail(ErrorCode::kCorrupt, "a.jsonl:3: bad");
    }
    return TraceRequest{.n_prompt = 5, .n_answer = 2, .hash_ids = {n}};
  });
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().message, "a.jsonl:3: bad");
}

TEST(Simulation, no_request_gives_an_empty_report) {
  const auto report = run(small_simulation(10), {});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->n_requests, 0);
  EXPECT_EQ(report->seconds, 0);
  EXPECT_TRUE(std::isnan(report->hit_rate()));
}

TEST(Latencies, percentiles_are_those_of_the_sorted_values_to_a_thousandth) {
  std::mt19937_64 random(17);
  std::lognormal_distribution<double> draw(-3, 3);
  for (const size_t n : {1, 2, 10, 999, 10'000}) {
    Latencies latencies;
    std::vector<double> values;
    for (size_t i = 0; i < n; ++i) {
      values.push_back(std::max(draw(random), 2e-6));
      latencies.add(values.back());
    }
    std::ranges::sort(values);
    for (const double share : {0.01, 0.5, 0.9, 0.99, 1.0}) {
      const auto rank =
          static_cast<size_t>(std::max(1.0, std::ceil(share * static_cast<double>(n))));
      const double expected = values[rank - 1];
      EXPECT_NEAR(latencies.percentile(share), expected, 1e-3 * expected) << n << " " << share;
    }
    EXPECT_EQ(latencies.largest(), values.back());
    EXPECT_EQ(latencies.n(), static_cast<int64_t>(n));
  }
  EXPECT_TRUE(std::isnan(Latencies().percentile(0.5)));
}

}  // namespace
}  // namespace millrace
