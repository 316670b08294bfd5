#pragma once
// What the response cache did for an answer, as its header and usage tell it.

namespace millrace {

enum class CacheOutcome {
  kHit,     // nothing was computed for it
  kMiss,    // computed, and kept for the next
  kBypass,  // computed, and the cache has nothing to do with it
};

inline const char* cache_outcome_name(CacheOutcome outcome) {
  switch (outcome) {
    case CacheOutcome::kHit:
      return "hit";
    case CacheOutcome::kMiss:
      return "miss";
    case CacheOutcome::kBypass:
      break;
  }
  return "bypass";
}

// Says it to the client, where there is a cache.
inline constexpr const char* kResponseCacheHeader = "X-Millrace-Response-Cache";

}  // namespace millrace
