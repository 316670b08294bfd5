#include "cli/bench_speculate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "cli/chat.h"
#include "cli/generate.h"
#include "cli/median.h"
#include "cli/progress.h"

namespace millrace {
namespace {

struct NamedPrompt {
  std::string name;
  std::string text;
};

constexpr const char* kText =
    "Nora is nine years old and lives in a small house by the lake. She likes red kites, cold "
    "milk and long walks. On Monday she found a brass key under the old bridge and gave it to "
    "her friend Ben, who keeps it in a blue box.";

std::vector<NamedPrompt> built_in_prompts() {
  const std::string text = kText;
  return {{"copying", "Repeat this text word for word. " + text},
          {"JSON", text + "\nExtract the name, age and home as JSON about Nora."},
          {"chat", "Hello! Who are you, and what can you do?"},
          {"story", "Tell me a story about a girl named Nora who finds a brass key."}};
}

Result<std::vector<TokenId>> encode(const Engine& engine, const std::string& text) {
  if (engine.chat_template() == nullptr) {
    return engine.tokenizer().encode(text, true, false);
  }
  Conversation conversation({});
  conversation.add_message(text);
  return encode_chat(engine, conversation.messages());
}

// Short answers are asked for again until so much time has passed: one alone says little.
constexpr double kLeastSeconds = 1;

// The answers to all prompts, asked for together.
struct Batch {
  std::vector<std::vector<TokenId>> tokens;
  Usage usage;                // sums
  double decode_seconds = 0;  // the longest, with what others' prompts took meanwhile
  double whole_seconds = 0;   // until the last had ended

  // Of all together; the first token of an answer belongs to its prompt.
  double decode_rate() const {
    const int64_t n = usage.completion_tokens - std::ssize(tokens);
    return decode_seconds > 0 ? static_cast<double>(n) / decode_seconds : 0;
  }
};

void add_finish(const FinishEvent& finish, Batch& batch) {
  const RequestTimings& timings = finish.timings;
  batch.usage.completion_tokens += finish.usage.completion_tokens;
  batch.usage.accepted_drafts += finish.usage.accepted_drafts;
  batch.usage.rejected_drafts += finish.usage.rejected_drafts;
  batch.decode_seconds = std::max(batch.decode_seconds, timings.decode_seconds);
  batch.whole_seconds =
      std::max(batch.whole_seconds,
               timings.queue_seconds + timings.prefill_seconds + timings.decode_seconds);
}

// Prompts with and without guesses, again and again, each first in turn.
class Comparison {
 public:
  Comparison(Engine& engine, int n_tokens, int n_sequences)
      : engine_(engine), n_tokens_(n_tokens), n_sequences_(n_sequences) {}

  Result<SpeculationResult> run(const NamedPrompt& prompt, int n_repetitions) {
    std::vector<std::vector<TokenId>> ids;
    for (int i = 0; i < n_sequences_; ++i) {
      auto encoded = encode(engine_, i == 0 ? prompt.text : fmt::format("{} ({})", prompt.text, i));
      if (!encoded) {
        return propagate(encoded);
      }
      ids.push_back(*std::move(encoded));
    }
    SpeculationResult result{.name = prompt.name};
    Rates rates;
    TimePoint begin = Clock::now();
    for (int i = -1; i < n_repetitions || seconds_since(begin) < kLeastSeconds; ++i) {
      std::array<Batch, 2> batches;  // without, with
      for (const bool is_second : {false, true}) {
        const bool is_speculative = (i % 2 != 0) != is_second;
        auto batch = ask(ids, is_speculative);
        if (!batch) {
          return propagate(batch);
        }
        batches[is_speculative ? 1 : 0] = *std::move(batch);
      }
      if (batches[0].tokens != batches[1].tokens) {
        return fail(ErrorCode::kInternal,
                    "{}: the answer with guesses is not the one without",
                    prompt.name);
      }
      if (i < 0) {  // the first touches memory and learns what steps take
        begin = Clock::now();
        continue;
      }
      rates.add(batches[0], batches[1]);
      result.n_tokens += batches[1].usage.completion_tokens;
      result.n_accepted += batches[1].usage.accepted_drafts;
      result.n_rejected += batches[1].usage.rejected_drafts;
      ++result.n_pairs;
    }
    result.plain = median(std::move(rates.plain));
    result.speculative = median(std::move(rates.speculative));
    result.ratio = median(std::move(rates.ratios));
    result.whole_ratio = median(std::move(rates.whole_ratios));
    return result;
  }

 private:
  struct Rates {
    std::vector<double> plain;
    std::vector<double> speculative;
    std::vector<double> ratios;
    std::vector<double> whole_ratios;

    void add(const Batch& without, const Batch& with) {
      plain.push_back(without.decode_rate());
      speculative.push_back(with.decode_rate());
      if (plain.back() > 0) {
        ratios.push_back(speculative.back() / plain.back());
        whole_ratios.push_back(without.whole_seconds / with.whole_seconds);
      }
    }
  };

  Result<Batch> ask(const std::vector<std::vector<TokenId>>& prompts, bool is_speculative) {
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (const std::vector<TokenId>& prompt : prompts) {
      Request request;
      request.prompt = prompt;
      request.max_tokens = n_tokens_;
      request.sampling.temperature = 0;
      request.is_speculative = is_speculative;
      // Nobody copies what was answered before: that would be the answer itself.
      request.cache_salt = "bench";
      auto stream = engine_.submit(std::move(request));
      if (!stream) {
        return fail(stream.error().code, "{}", with_option_names(stream.error().message));
      }
      streams.push_back(*std::move(stream));
    }
    Batch batch;
    for (const std::shared_ptr<TokenStream>& stream : streams) {
      batch.tokens.emplace_back();
      for (StreamEvent event; stream->wait_next(event);) {
        if (const auto* token = std::get_if<TokenEvent>(&event.body)) {
          batch.tokens.back().push_back(token->token);
        } else if (const auto* finish = std::get_if<FinishEvent>(&event.body)) {
          if (finish->reason == FinishReason::kError) {
            return fail(finish->error.code, "{}", finish->error.message);
          }
          add_finish(*finish, batch);
        }
      }
    }
    return batch;
  }

  Engine& engine_;
  const int n_tokens_;
  const int n_sequences_;
};

}  // namespace

double SpeculationResult::tokens_per_pass() const {
  const int64_t n_passes = n_tokens - n_accepted;
  return n_passes > 0 ? static_cast<double>(n_tokens) / static_cast<double>(n_passes) : 0;
}

Result<SpeculationReport> bench_speculation(Engine& engine,
                                            const std::vector<std::string>& prompts,
                                            const SpeculationSize& size) {
  std::vector<NamedPrompt> named;
  for (const std::string& text : prompts) {
    named.push_back({fmt::format("prompt {}", named.size() + 1), text});
  }
  if (named.empty()) {
    named = built_in_prompts();
  }
  Progress progress("speculation");
  Comparison comparison(engine, size.n_tokens, size.n_sequences);
  SpeculationReport report;
  for (const NamedPrompt& prompt : named) {
    progress.show(prompt.name);
    auto result = comparison.run(prompt, size.n_repetitions);
    if (!result) {
      return propagate(result);
    }
    report.results.push_back(*std::move(result));
  }
  const EngineStats stats = engine.stats();
  for (size_t i = 0; i < stats.accepted_at.size(); ++i) {
    const int64_t n = stats.accepted_at[i] + stats.rejected_at[i];
    if (n == 0) break;
    report.right_at.push_back(static_cast<double>(stats.accepted_at[i]) / static_cast<double>(n));
  }
  return report;
}

std::string speculation_text(const SpeculationReport& report) {
  std::string text = fmt::format("{:<12}{:>16}{:>12}{:>8}{:>14}{:>14}{:>20}\n",
                                 "tokens/s",
                                 "without guesses",
                                 "with",
                                 "ratio",
                                 "with prompt",
                                 "tokens/pass",
                                 "guesses right");
  // Where nothing was guessed both were computed alike: a ratio would be noise.
  for (const SpeculationResult& result : report.results) {
    const int64_t n_guesses = result.n_accepted + result.n_rejected;
    const auto ratio = [&](double value) {
      return result.has_guesses() ? fmt::format("{:.3f}", value) : "-";
    };
    text += fmt::format(
        "{:<12}{:>16.1f}{:>12.1f}{:>8}{:>14}{:>14.2f}{:>20}\n",
        result.name,
        result.plain,
        result.speculative,
        ratio(result.ratio),
        ratio(result.whole_ratio),
        result.tokens_per_pass(),
        result.has_guesses() ? fmt::format("{} of {}", result.n_accepted, n_guesses) : "none made");
  }
  text +=
      "ratio: the median of those of pairs, an answer with guesses and one without made right "
      "after "
      "each\nother, and so not the quotient of the two medians before it; with prompt: the same "
      "with "
      "the prompt's time\n";
  if (!report.right_at.empty()) {
    text += "right, by place in the guess:";
    for (const double share : report.right_at) {
      text += fmt::format(" {:.0f} %", 100 * share);
    }
    text += '\n';
  }
  return text;
}

JsonObject speculation_json(const SpeculationReport& report) {
  std::vector<JsonObject> results;
  const auto ratio = [](const SpeculationResult& result, double value) {
    return result.has_guesses() ? value : std::numeric_limits<double>::quiet_NaN();  // null
  };
  for (const SpeculationResult& result : report.results) {
    results.emplace_back()
        .add("prompt", result.name)
        .add("plain_tokens_per_second", result.plain)
        .add("speculative_tokens_per_second", result.speculative)
        .add("ratio", ratio(result, result.ratio))
        .add("ratio_with_prompt", ratio(result, result.whole_ratio))
        .add("pairs", result.n_pairs)
        .add("tokens", result.n_tokens)
        .add("tokens_per_pass", result.tokens_per_pass())
        .add("accepted_drafts", result.n_accepted)
        .add("rejected_drafts", result.n_rejected);
  }
  JsonObject object;
  object.add("results", results).add("right_by_position", report.right_at);
  return object;
}

}  // namespace millrace
