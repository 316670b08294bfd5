// Counts what operator new gives: the tables beside weights and KV take what the memory plan says,
// and a step in which sequences only decode takes nothing.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "engine/memory_plan.h"
#include "engine/scheduler.h"
#include "engine/test_engine.h"
#include "sample/sampler.h"
#include "spec/proposer.h"

namespace {

std::atomic<int64_t> n_allocations{0};
std::atomic<int64_t> n_bytes{0};  // ever given

void* counted(std::size_t size, std::size_t alignment) {
  n_allocations.fetch_add(1, std::memory_order_relaxed);
  n_bytes.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
  void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

void* operator new(std::size_t size) {
  return counted(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace millrace {
namespace {

// Bytes that a call takes, given back or not.
template <class Call>
int64_t bytes_of(const Call& call) {
  const int64_t before = n_bytes.load();
  call();
  return n_bytes.load() - before;
}

// All of it is taken at the start, whatever the number of blocks, but for the sequences' own.
TEST(PlannedTables, of_blocks_are_what_a_scheduler_takes) {
  for (const int64_t n_blocks : {1'025, 4'096, 100'000}) {
    const int64_t taken = bytes_of([&] { const Scheduler scheduler({.n_blocks = n_blocks}); });
    const int64_t planned = n_blocks * static_cast<int64_t>(Scheduler::bytes_per_block());
    EXPECT_LE(taken, planned + 4'096) << n_blocks;
    EXPECT_GE(taken, planned * 4 / 5) << n_blocks;
  }
}

TEST(PlannedTables, of_ngrams_hold_whatever_the_length) {
  for (const int64_t n : {1, 511, 512, 513, 5'000, 8'192, 8'193}) {
    const std::vector<TokenId> tokens(static_cast<size_t>(n), 7);
    NgramIndex index;
    const int64_t taken = bytes_of([&] { index.extend(tokens, n); });
    EXPECT_LE(taken, NgramIndex::bytes_for(n)) << n;
    EXPECT_GE(taken, NgramIndex::bytes_for(n) / 2 - 8) << n;
  }
}

TEST(PlannedTables, of_answers_are_bounded_however_many_there_are) {
  constexpr int64_t kMaxTokens = 1 << 12;
  AnswerLog log(kMaxTokens);
  std::vector<TokenId> answer;
  for (TokenId token = 0; token < 100; ++token) {
    answer.push_back(token);
  }
  const int64_t first = bytes_of([&] {
    for (int i = 0; i < 50; ++i) {
      log.add(answer);
    }
  });
  EXPECT_LE(first, 2 * AnswerLog::bytes_for(kMaxTokens));  // with what growing gave back
  EXPECT_EQ(bytes_of([&] {
              for (int i = 0; i < 500; ++i) {
                log.add(answer);
              }
            }),
            0);
}

TEST(PlannedTables, of_a_sampler_are_there_before_its_first_row) {
  constexpr int64_t kVocabulary = 32'000;
  std::vector<float> logits(kVocabulary, 0.5F);
  Sampler sampler(kernels::detect_isa(), kVocabulary);
  EXPECT_LE(bytes_of([] { Sampler(kernels::detect_isa(), kVocabulary); }),
            Sampler::scratch_bytes(kVocabulary));
  EXPECT_EQ(bytes_of([&] {
              for (const float top_p : {1.0F, 0.9F}) {
                for (const int top_k : {0, 50}) {
                  for (const float min_p : {0.0F, 0.1F}) {
                    SamplingParams params;
                    params.temperature = 0.8F;
                    params.top_p = top_p;
                    params.top_k = top_k;
                    params.min_p = min_p;
                    EXPECT_TRUE(sampler.sample({.logits = logits, .params = &params}));
                  }
                }
              }
            }),
            0);
}

// Far more may wait than run, and the plan counts those that run.
TEST(WaitingChoices, take_little_whatever_they_ask_for) {
  constexpr int kRequests = 4;
  constexpr int64_t kPrompt = 1'900;
  const TestModel model;
  EngineOptions options;
  options.n_threads = 1;
  options.max_sequences = 1;
  options.max_waiting = kRequests * kMaxChoices;
  TestEngine rig(model.path(), options);
  Request request;
  request.prompt = some_prompt(10);
  request.max_tokens = 2'000;
  request.ignore_eos = true;
  const auto running = rig.submit(request);
  StreamEvent event;
  ASSERT_TRUE(running->wait_next(event));
  request.prompt = some_prompt(static_cast<int>(kPrompt));
  request.max_tokens = 100;
  request.n = kMaxChoices;
  request.n_logprobs = kMaxTopLogprobs;
  request.prompt_logprobs = kMaxTopLogprobs;
  request.prediction = some_prompt(1'000);
  request.stop = {std::string(1'000, 's')};
  request.sampling.repetition_penalty = 1.1F;
  std::vector<std::shared_ptr<TokenStream>> waiting;
  const int64_t taken = bytes_of([&] {
    for (int i = 0; i < kRequests; ++i) {
      waiting.push_back(rig.submit(request));
    }
    while (rig.engine->stats().prompt_tokens < 10 + kRequests * kMaxChoices * kPrompt) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_EQ(rig.engine->stats().n_waiting, kRequests * kMaxChoices);
  // Fewer than the ids of their prompts alone would be.
  EXPECT_LT(taken, kRequests * kMaxChoices * kPrompt * int64_t{sizeof(TokenId)});
  for (const auto& stream : waiting) {
    stream->cancel();
  }
  running->cancel();
  for (const auto& stream : waiting) {
    for (const auto& [choice, answer] : read_all(*stream)) {
      EXPECT_EQ(answer.finish.reason, FinishReason::kCancelled) << choice;
      EXPECT_EQ(answer.finish.usage.prompt_tokens, kPrompt);
      EXPECT_EQ(answer.finish.usage.completion_tokens, 0);
    }
  }
}

struct SteadyCase {
  const char* name;
  float temperature;
  float penalty;
  int max_drafts;
  bool has_draft_model;
  bool has_logprobs;
  bool adapts = false;
};

class SteadyStep : public testing::TestWithParam<SteadyCase> {};

// Eight sequences decode from their 80th token to their 240th, across two edges of blocks. They are
// read on the engine thread, at the end of each step, so that nothing depends on when a reader gets
// a processor.
TEST_P(SteadyStep, allocates_nothing) {
  constexpr size_t kSequences = 8;
  constexpr int64_t kFrom = 80;
  constexpr int64_t kTo = 240;
  const SteadyCase& steady = GetParam();
  const TestModel model(DType::kQ8_0);
  EngineOptions options;
  options.n_threads = 2;
  options.max_drafts = steady.max_drafts;
  options.adapts_drafts = steady.adapts;
  TestEngine rig(model.path(), options, steady.has_draft_model ? model.path() : "");
  std::array<std::shared_ptr<TokenStream>, kSequences> streams;
  std::array<int64_t, kSequences> n_tokens = {};
  std::atomic<bool> is_submitted{false};
  std::atomic<bool> is_over{false};
  int64_t n_before = -1;  // allocations when all had reached kFrom
  int64_t n_after = -1;   // and when the first had reached kTo
  const auto read = [&](size_t i) {
    is_submitted.wait(false);
    StreamEvent event;
    while (streams[i]->try_next(event)) {
      n_tokens[i] += std::holds_alternative<TokenEvent>(event.body) ? 1 : 0;
    }
    const auto [least, most] = std::ranges::minmax(n_tokens);
    if (n_before < 0 && least >= kFrom) {
      EXPECT_LT(most, kTo - 100);
      n_before = n_allocations.load();
    }
    if (n_after < 0 && most >= kTo) {
      n_after = n_allocations.load();
    }
    if (std::ranges::all_of(streams, &TokenStream::is_finished)) {
      is_over.store(true);
      is_over.notify_one();
    }
  };
  for (const bool is_measured : {false, true}) {  // the first time, memory grows to its size
    for (size_t i = 0; i < kSequences; ++i) {
      Request request;
      request.prompt = some_prompt(40, static_cast<int>(i));
      request.max_tokens = 300;
      request.ignore_eos = true;
      request.seed = 1 + i;
      request.sampling.temperature = steady.temperature;
      request.sampling.frequency_penalty = steady.penalty;
      request.sampling.repetition_penalty = 1 + steady.penalty;
      request.cache_salt = steady.has_draft_model ? "no guesses from answers before" : "";
      if (steady.has_logprobs) {
        request.n_logprobs = 0;
      }
      if (!is_measured) {
        streams[i] = rig.submit(request);
      } else {
        auto submitted = rig.engine->submit(request, [&, i] { read(i); });
        ASSERT_TRUE(submitted);
        streams[i] = *std::move(submitted);
      }
    }
    for (size_t i = 0; !is_measured && i < kSequences; ++i) {
      EXPECT_EQ(read_all(*streams[i]).at(0).ids.size(), 300U);
    }
  }
  is_submitted.store(true);
  is_submitted.notify_one();
  is_over.wait(false);
  ASSERT_GE(n_before, 0);
  ASSERT_GE(n_after, 0);
  EXPECT_EQ(n_after - n_before, 0);
  for (const int64_t n : n_tokens) {
    EXPECT_EQ(n, 300);
  }
  if (!steady.adapts) {
    EXPECT_EQ(rig.engine->stats().accepted_drafts > 0, steady.max_drafts > 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         SteadyStep,
                         testing::Values(SteadyCase{"greedy", 0, 0, 0, false, false},
                                         SteadyCase{"sampled", 0.8F, 0, 0, false, true},
                                         SteadyCase{"penalised", 0.8F, 0.1F, 0, false, false},
                                         SteadyCase{"drafted", 0, 0, 4, false, false},
                                         SteadyCase{"draft_model", 0.8F, 0, 3, true, false},
                                         SteadyCase{"adaptive", 0.8F, 0, 3, true, false, true}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace millrace
