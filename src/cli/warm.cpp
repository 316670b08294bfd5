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

// Another go is no help against errors of the disk: it writes nothing for a while.
Result<Usage> compute(Engine& engine, const Request& request) {
  Usage usage;
  for (int go = 0; go < kMaxGoes; ++go) {
    const EngineStats before = engine.stats();
    auto answer = generate(engine, request);
    if (!answer) {
      return propagate(answer);
    }
    if (go == 0) {
      usage = answer->finish.usage;
    }
    const EngineStats after = settled_stats(engine);
    if (after.refused_blocks == before.refused_blocks ||
        after.failed_blocks > before.failed_blocks) {
      break;
    }
  }
  return usage;
}

}  // namespace

Result<void> warm_up(Engine& engine,
                     std::span<const std::string> prompts,
                     const std::string& path) {
  const TimePoint begin = Clock::now();
  const int64_t n_failed_before = engine.stats().failed_blocks;
  int64_t n_tokens = 0;
  int64_t n_cached = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto request = parse_warm_prompt(engine, prompts[i]);
    const auto usage = request ? compute(engine, *request) : Result<Usage>(propagate(request));
    if (!usage) {
      return fail(
          usage.error().code, "--warm {}: prompt {}: {}", path, i + 1, usage.error().message);
    }
    n_tokens += usage->prompt_tokens;
    n_cached += usage->cached_tokens;
  }
  log_info("[serve] --warm: {} of {}, {} of them found, {:.2f} s",
           counted(std::ssize(prompts), "prompt"),
           counted(n_tokens, "token"),
           n_cached,
           seconds_since(begin));
  if (const int64_t n = engine.stats().failed_blocks - n_failed_before; n > 0) {
    log_warning("[serve] --warm: {} could not be written to disk, and are in memory only",
                counted(n, "block"));
  }
  return {};
}

}  // namespace millrace
