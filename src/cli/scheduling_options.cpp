#include "cli/scheduling_options.h"

#include <fmt/format.h>

#include "cli/http_client.h"
#include "cli/option_set.h"

namespace millrace {

void SchedulingOptions::declare(OptionSet& options, const char* keys) {
  options.add("--max-sequences", max_sequences, 1, kMaxSequences, "Answers made at the same time");
  options.add("--max-waiting",
              max_waiting,
              1,
              kMaxWaiting,
              "Answers that may wait for their turn; more are refused (429)");
  options.add("--max-step-ms",
              max_step_ms,
              0,
              kMaxStepMilliseconds,
              "Milliseconds that running answers wait for their next token while a prompt is "
              "computed; 0: 100, or twice what a step without prompts takes if that is more");
  options.add("--policy",
              policy,
              "latency (prompts are computed so that running answers keep their pace) or "
              "throughput (every step is filled with prompts); the text stays the same");
  options.add("--fair",
              is_fair,
              fmt::format("Share the machine between {} by tokens, however much each has waiting "
                          "(up to --max-waiting together)",
                          keys)
                  .c_str());
  options.add("--no-prefix-cache",
              no_prefix_cache,
              "Compute every prompt anew; answers are the same with and without");
}

Result<void> SchedulingOptions::apply(EngineOptions& engine_options) const {
  if (policy != "latency" && policy != "throughput") {
    return fail(ErrorCode::kInvalidArgument,
                "--policy: expected latency or throughput, got {}",
                printable_line(policy));
  }
  if (policy == "throughput" && max_step_ms > 0) {
    return fail(ErrorCode::kInvalidArgument,
                "--policy throughput lets steps take the time they need: leave out --max-step-ms");
  }
  engine_options.max_sequences = max_sequences;
  engine_options.max_waiting = max_waiting;
  engine_options.max_step_ms = max_step_ms;
  engine_options.fills_steps = policy == "throughput";
  engine_options.is_fair = is_fair;
  engine_options.has_prefix_cache = !no_prefix_cache;
  return {};
}

}  // namespace millrace
