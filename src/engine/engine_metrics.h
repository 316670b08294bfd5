#pragma once
// The engine's series, in Prometheus' naming. Recorded on the engine thread.

#include "base/metrics.h"
#include "engine/token_stream.h"

namespace millrace {

struct EngineMetrics {
  explicit EngineMetrics(Metrics& metrics);

  // Of an answer that ended with that reason, kError with that error.
  Counter& finished(FinishReason reason, ErrorCode code);

  Gauge running;
  Gauge waiting;
  Gauge blocks_free;
  Gauge blocks_cached;
  Gauge blocks_used;
  Gauge blocks_loading;
  Counter steps;
  Counter preemptions;
  Counter recomputed_tokens;
  Counter prompt_tokens;
  Counter cached_tokens;
  Counter cache_hits;
  Counter loaded_tokens;
  Counter tier_hits;
  Counter generated_tokens;
  Counter accepted_drafts;
  Counter rejected_drafts;
  Counter finished_stop;
  Counter finished_length;
  Counter finished_timeout;
  Counter finished_cancelled;
  Counter finished_error;
  Histogram queue_seconds;
  Histogram first_token_seconds;
  Histogram inter_token_seconds;
  Histogram request_seconds;
  Histogram step_seconds;
  Histogram step_tokens;
};

}  // namespace millrace
