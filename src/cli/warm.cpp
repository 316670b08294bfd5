#include "cli/warm.h"

#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/human_bytes.h"
#include "base/log.h"
#include "cli/generate.h"
#include "server/warm_prompt.h"

namespace millrace {
namespace {

// A disk that is slower than computing takes the blocks in several goes; each finds the rest in
// memory.
constexpr int kMaxGoes = 100;
constexpr auto kPoll = std::chrono::milliseconds(2);

// What there is to know when all that was computed has been written, or given up.
EngineStats settled_stats(const Engine& engine) {
  EngineStats stats = engine.stats();
  while (stats.is_stepping || stats.unwritten_blocks > 0) {
    std::this_thread::sleep_for(kPoll);
    stats = engine.stats();
  }
  return stats;
}

struct Warmed {
  Usage usage;
  int64_t n_unkept = 0;  // blocks that are in memory only
};

// Another go is no help against errors of the disk: it writes nothing for a while.
Result<Warmed> compute(Engine& engine, const Request& request) {
  Warmed warmed;
  for (int go = 0; go < kMaxGoes; ++go) {
    const EngineStats before = engine.stats();
    auto answer = generate(engine, request);
    if (!answer) {
      return propagate(answer);
    }
    if (go == 0) {
      warmed.usage = answer->finish.usage;
    }
    const EngineStats after = settled_stats(engine);
    const int64_t n_failed = after.failed_blocks - before.failed_blocks;
    warmed.n_unkept = after.refused_blocks - before.refused_blocks + n_failed;
    if (warmed.n_unkept == 0 || n_failed > 0) {
      break;
    }
  }
  return warmed;
}

}  // namespace

Result<void> warm_up(const Service& service,
                     Engine& engine,
                     std::span<const PromptLine> prompts,
                     const std::string& path) {
  const TimePoint begin = Clock::now();
  int64_t n_tokens = 0;
  int64_t n_cached = 0;
  int64_t n_unkept = 0;
  for (const PromptLine& prompt : prompts) {
    const auto request = parse_warm_prompt(service, engine, prompt.text);
    const auto warmed = request ? compute(engine, *request) : Result<Warmed>(propagate(request));
    if (!warmed) {
      return fail(warmed.error().code,
                  "--warm {}: line {}: {}",
                  path,
                  prompt.number,
                  warmed.error().message);
    }
    n_tokens += warmed->usage.prompt_tokens;
    n_cached += warmed->usage.cached_tokens;
    n_unkept += warmed->n_unkept;
  }
  log_info("[serve] --warm: {} of {}, {} of them found, {:.2f} s",
           counted(std::ssize(prompts), "prompt"),
           counted(n_tokens, "token"),
           n_cached,
           seconds_since(begin));
  if (n_unkept > 0) {
    log_warning("[serve] --warm: {} could not be written to disk, and are in memory only",
                counted(n_unkept, "block"));
  }
  return {};
}

}  // namespace millrace
