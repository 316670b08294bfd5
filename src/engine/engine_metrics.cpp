#include "engine/engine_metrics.h"

namespace millrace {
namespace {

const std::vector<double> kSeconds = exponential_buckets(0.001, 2, 18);       // to 131 s
const std::vector<double> kStepSeconds = exponential_buckets(0.0005, 2, 14);  // to 4 s
const std::vector<double> kStepTokens = exponential_buckets(1, 2, 12);        // to 2,048

Counter finish_counter(Metrics& metrics, const char* reason) {
  return metrics.counter(
      "millrace_choices_finished_total", "Answers ended, by finish reason", {{"reason", reason}});
}

Counter cached_counter(Metrics& metrics, const char* tier) {
  return metrics.counter("millrace_cached_prompt_tokens_total",
                         "Prompt tokens whose KV was found, by where",
                         {{"tier", tier}});
}

Counter hit_counter(Metrics& metrics, const char* tier) {
  return metrics.counter("millrace_prefix_cache_hits_total",
                         "Sequences that found some of their prompt's KV, by where",
                         {{"tier", tier}});
}

Counter draft_counter(Metrics& metrics, const char* outcome) {
  return metrics.counter(
      "millrace_draft_tokens_total", "Tokens guessed by speculation", {{"outcome", outcome}});
}

}  // namespace

EngineMetrics::EngineMetrics(Metrics& metrics)
    : running(metrics.gauge("millrace_sequences_running", "Sequences that are being computed")),
      waiting(metrics.gauge("millrace_sequences_waiting", "Sequences that wait for admission")),
      blocks_free(metrics.gauge("millrace_kv_blocks", "KV blocks by state", {{"state", "free"}})),
      blocks_cached(
          metrics.gauge("millrace_kv_blocks", "KV blocks by state", {{"state", "cached"}})),
      blocks_used(metrics.gauge("millrace_kv_blocks", "KV blocks by state", {{"state", "used"}})),
      blocks_loading(
          metrics.gauge("millrace_kv_blocks", "KV blocks by state", {{"state", "loading"}})),
      steps(metrics.counter("millrace_steps_total", "Model steps")),
      preemptions(metrics.counter("millrace_preemptions_total",
                                  "Sequences that gave their KV blocks back to be recomputed")),
      recomputed_tokens(metrics.counter("millrace_recomputed_tokens_total",
                                        "Tokens computed again after a preemption")),
      prompt_tokens(metrics.counter("millrace_prompt_tokens_total", "Prompt tokens accepted")),
      cached_tokens(cached_counter(metrics, "memory")),
      cache_hits(hit_counter(metrics, "memory")),
      loaded_tokens(cached_counter(metrics, "disk")),
      tier_hits(hit_counter(metrics, "disk")),
      generated_tokens(metrics.counter("millrace_generated_tokens_total", "Tokens sampled")),
      accepted_drafts(draft_counter(metrics, "accepted")),
      rejected_drafts(draft_counter(metrics, "rejected")),
      finished_stop(finish_counter(metrics, "stop")),
      finished_length(finish_counter(metrics, "length")),
      finished_timeout(finish_counter(metrics, "timeout")),
      finished_cancelled(finish_counter(metrics, "cancelled")),
      finished_error(finish_counter(metrics, "error")),
      queue_seconds(
          metrics.histogram("millrace_queue_seconds", "Submit to first admission", kSeconds)),
      first_token_seconds(metrics.histogram(
          "millrace_time_to_first_token_seconds", "Submit to first sampled token", kSeconds)),
      inter_token_seconds(metrics.histogram(
          "millrace_inter_token_seconds", "Between two tokens of a sequence", kStepSeconds)),
      request_seconds(metrics.histogram(
          "millrace_request_seconds", "Submit to the end of an answer", kSeconds)),
      step_seconds(metrics.histogram("millrace_step_seconds", "One step", kStepSeconds)),
      step_tokens(metrics.histogram("millrace_step_tokens", "Tokens of one step", kStepTokens)) {}

Counter& EngineMetrics::finished(FinishReason reason, ErrorCode code) {
  switch (reason) {
    case FinishReason::kStop:
      return finished_stop;
    case FinishReason::kLength:
      return finished_length;
    case FinishReason::kTimeout:
      return finished_timeout;
    case FinishReason::kCancelled:
      return finished_cancelled;
    case FinishReason::kError:
      break;
  }
  return code == ErrorCode::kDeadlineExceeded ? finished_timeout : finished_error;
}

}  // namespace millrace
