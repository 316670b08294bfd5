#include "cli/bench_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

#include "cli/generate.h"
#include "cli/note.h"
#include "cli/progress.h"
#include "kv/block_pool.h"

namespace millrace {
namespace {

// Random ids, new ones each time, so that nothing can be reused.
std::vector<TokenId> random_prompt(const Engine& engine, int n, std::mt19937_64& random) {
  std::vector<TokenId> prompt;
  for (int i = 0; i < n; ++i) {
    prompt.push_back(static_cast<TokenId>(random() % static_cast<uint64_t>(engine.info().n_vocab)));
  }
  return prompt;
}

Result<std::shared_ptr<TokenStream>> submit(Engine& engine,
                                            std::vector<TokenId> prompt,
                                            int64_t n_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = n_tokens;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  auto stream = engine.submit(std::move(request));
  if (!stream) {
    return fail(stream.error().code, "{}", with_option_names(stream.error().message));
  }
  return stream;
}

Result<FinishEvent> wait_for_end(TokenStream& stream) {
  FinishEvent finish;
  for (StreamEvent event; stream.wait_next(event);) {
    if (auto* end = std::get_if<FinishEvent>(&event.body)) {
      finish = std::move(*end);
    }
  }
  if (finish.reason == FinishReason::kError) {
    return fail(finish.error.code, "{}", finish.error.message);
  }
  return finish;
}

// Steps that the other prompts of the decode test may take at most, while the first sequences
// decode already.
int64_t max_steps_of_prompts(int n_prompt, int n_sequences) {
  constexpr int kLeastTokens = 128;  // of prompts in a step that is filled
  return int64_t{n_sequences} * (n_prompt / kLeastTokens + 2);
}

double seconds_of(const FinishEvent& finish) {
  const RequestTimings& timings = finish.timings;
  return timings.queue_seconds + timings.prefill_seconds + timings.decode_seconds;
}

// Prompts of n_prompt tokens, of which all but the last go on until that one has its n_tokens: so
// what it takes between its first token and its last is what a step of all of them takes.
Result<FinishEvent> run(
    Engine& engine, int n_prompt, int64_t n_tokens, int n_sequences, std::mt19937_64& random) {
  const auto do_not_fit = [&] {
    return fail(ErrorCode::kInvalidArgument,
                "{} sequences of {} tokens (--sequences) do not fit the KV memory at once",
                n_sequences,
                n_prompt + n_tokens);
  };
  if (n_sequences * blocks_for(n_prompt + n_tokens) > engine.info().n_blocks) {
    return do_not_fit();
  }
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (int i = 0; i < n_sequences; ++i) {
    const bool is_last = i + 1 == n_sequences;
    const int64_t n_more = is_last ? 0 : max_steps_of_prompts(n_prompt, n_sequences);
    auto stream = submit(engine, random_prompt(engine, n_prompt, random), n_tokens + n_more);
    if (!stream) {
      return propagate(stream);
    }
    streams.push_back(*std::move(stream));
  }
  auto finish = wait_for_end(*streams.back());
  streams.pop_back();
  for (const auto& stream : streams) {
    stream->cancel();
  }
  for (const auto& stream : streams) {
    const auto other = wait_for_end(*stream);
    if (!other) {
      return propagate(other);
    }
    if (finish && seconds_of(*other) < seconds_of(*finish)) {
      return do_not_fit();
    }
  }
  return finish;
}

// n_prompt tokens are computed, then n_generate more than the first one are drawn, by each of
// n_sequences at once: the first belongs to the prefill. Tokens a second of all.
Result<std::vector<double>> measure(Engine& engine,
                                    const char* name,
                                    int n_prompt,
                                    int n_generate,
                                    int n_sequences,
                                    int n_repetitions,
                                    std::mt19937_64& random) {
  Progress progress(name);
  std::vector<double> rates;
  for (int i = 0; i < n_repetitions; ++i) {
    progress.show(fmt::format("{} of {}", i + 1, n_repetitions));
    const auto finish = run(engine, n_prompt, n_generate + 1, n_sequences, random);
    if (!finish) {
      return propagate(finish);
    }
    rates.push_back(n_generate > 0 ? n_sequences * decode_rate(*finish) : prefill_rate(*finish));
  }
  return rates;
}

}  // namespace

Result<BenchSize> fit_window(BenchSize size, int64_t window) {
  if (window < 3 && size.n_generate > 0) {
    return fail(ErrorCode::kInvalidArgument,
                "a window of {} tokens leaves no room for the decode test (-n 0 skips it)",
                window);
  }
  const auto shrink = [&](const char* name, int& n, int64_t room) {
    if (n > room) {
      print_note("{} {} does not fit the window of {}: {} instead\n", name, n, window, room);
      n = static_cast<int>(room);
    }
  };
  shrink("--prompt-tokens", size.n_prompt, window - 1);
  if (size.n_generate > 0) {
    shrink("--tokens", size.n_generate, window - 2);
    const int64_t n_waiting =
        size.n_sequences > 1 ? max_steps_of_prompts(size.depth, size.n_sequences) : 0;
    const int64_t room = window - size.n_generate - 1 - n_waiting;
    if (room < 1) {
      return fail(
          ErrorCode::kInvalidArgument,
          "a window of {} tokens leaves no room for {} sequences of {} tokens (--sequences)",
          window,
          size.n_sequences,
          size.n_generate);
    }
    shrink("--depth", size.depth, room);
  }
  return size;
}

Result<BenchRates> measure_rates(Engine& engine, const BenchSize& size) {
  std::mt19937_64 random(1);
  BenchRates rates;
  if (size.n_prompt > 0) {
    auto prefill = measure(engine, "prefill", size.n_prompt, 0, 1, size.n_repetitions, random);
    if (!prefill) {
      return propagate(prefill);
    }
    rates.prefill = std::move(*prefill);
  }
  if (size.n_generate > 0) {
    auto decode = measure(engine,
                          "decode",
                          std::max(1, size.depth),
                          size.n_generate,
                          size.n_sequences,
                          size.n_repetitions,
                          random);
    if (!decode) {
      return propagate(decode);
    }
    rates.decode = std::move(*decode);
  }
  return rates;
}

}  // namespace millrace
