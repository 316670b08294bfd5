#include "cli/bench_speculate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

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

// One prompt with and without guesses, again and again, each first in turn.
class Comparison {
 public:
  Comparison(Engine& engine, int n_tokens) : engine_(engine), n_tokens_(n_tokens) {}

  Result<SpeculationResult> run(const NamedPrompt& prompt, int n_repetitions) {
    auto ids = encode(engine_, prompt.text);
    if (!ids) {
      return propagate(ids);
    }
    SpeculationResult result{.name = prompt.name};
    std::vector<double> plain;
    std::vector<double> speculative;
    std::vector<double> ratios;
    for (int i = 0; i < n_repetitions; ++i) {
      std::array<Answer, 2> answers;  // without, with
      for (const bool is_second : {false, true}) {
        const bool is_speculative = (i % 2 == 1) != is_second;
        auto answer = ask(*ids, is_speculative);
        if (!answer) {
          return propagate(answer);
        }
        answers[is_speculative ? 1 : 0] = *std::move(answer);
      }
      if (answers[0].tokens != answers[1].tokens) {
        return fail(ErrorCode::kInternal,
                    "{}: the answer with guesses is not the one without",
                    prompt.name);
      }
      plain.push_back(decode_rate(answers[0].finish));
      speculative.push_back(decode_rate(answers[1].finish));
      if (plain.back() > 0) {
        ratios.push_back(speculative.back() / plain.back());
      }
      result.n_tokens += answers[1].finish.usage.completion_tokens;
      result.n_accepted += answers[1].finish.usage.accepted_drafts;
      result.n_rejected += answers[1].finish.usage.rejected_drafts;
    }
    result.plain = median(std::move(plain));
    result.speculative = median(std::move(speculative));
    result.ratio = median(std::move(ratios));
    return result;
  }

 private:
  Result<Answer> ask(const std::vector<TokenId>& prompt, bool is_speculative) {
    Request request;
    request.prompt = prompt;
    request.max_tokens = n_tokens_;
    request.sampling.temperature = 0;
    request.is_speculative = is_speculative;
    // Nobody copies what was answered before: that would be the answer itself.
    request.cache_salt = "bench";
    return generate(engine_, std::move(request));
  }

  Engine& engine_;
  const int n_tokens_;
};

}  // namespace

double SpeculationResult::tokens_per_pass() const {
  const int64_t n_passes = n_tokens - n_accepted;
  return n_passes > 0 ? static_cast<double>(n_tokens) / static_cast<double>(n_passes) : 0;
}

Result<SpeculationReport> bench_speculation(Engine& engine,
                                            const std::vector<std::string>& prompts,
                                            int n_tokens,
                                            int n_repetitions) {
  std::vector<NamedPrompt> named;
  for (const std::string& text : prompts) {
    named.push_back({fmt::format("prompt {}", named.size() + 1), text});
  }
  if (named.empty()) {
    named = built_in_prompts();
  }
  Progress progress("speculation");
  Comparison comparison(engine, n_tokens);
  SpeculationReport report;
  for (const NamedPrompt& prompt : named) {
    progress.show(prompt.name);
    auto result = comparison.run(prompt, n_repetitions);
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
  std::string text = fmt::format("{:<12}{:>16}{:>16}{:>8}{:>14}{:>16}\n",
                                 "tokens/s",
                                 "without guesses",
                                 "with",
                                 "ratio",
                                 "tokens/pass",
                                 "guesses right");
  for (const SpeculationResult& result : report.results) {
    const int64_t n_guesses = result.n_accepted + result.n_rejected;
    text += fmt::format("{:<12}{:>16.1f}{:>16.1f}{:>8.2f}{:>14.2f}{:>16}\n",
                        result.name,
                        result.plain,
                        result.speculative,
                        result.ratio,
                        result.tokens_per_pass(),
                        fmt::format("{} of {}", result.n_accepted, n_guesses));
  }
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
  for (const SpeculationResult& result : report.results) {
    results.emplace_back()
        .add("prompt", result.name)
        .add("plain_tokens_per_second", result.plain)
        .add("speculative_tokens_per_second", result.speculative)
        .add("ratio", result.ratio)
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
