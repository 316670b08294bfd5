#pragma once
// Where the events of an answer come from: the engine, or the response cache. One reader, on its
// I/O thread.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "engine/request.h"
#include "engine/token_stream.h"
#include "server/cache_outcome.h"

namespace millrace {

class Engine;

// Destroying a feed that is not finished means that nobody wants the rest.
class AnswerFeed {
 public:
  virtual ~AnswerFeed() = default;
  // The next event; choices are counted over all prompts of the request. False: none now, and the
  // waker will call, or none any more.
  virtual bool try_next(StreamEvent& event) = 0;
  virtual bool is_finished() const = 0;

  std::optional<CacheOutcome> cache_outcome() const { return outcome_; }  // absent: no cache
  void set_cache_outcome(CacheOutcome outcome) { outcome_ = outcome; }

 private:
  std::optional<CacheOutcome> outcome_;
};

// Computed by the engine for this reader alone.
class EngineFeed : public AnswerFeed {
 public:
  // One request a prompt; all of the same n. Either all are accepted or none.
  static Result<std::unique_ptr<AnswerFeed>> submit(Engine& engine,
                                                    std::vector<Request> requests,
                                                    const std::function<void()>& on_ready);
  ~EngineFeed() override;

  bool try_next(StreamEvent& event) override;
  bool is_finished() const override;

 private:
  EngineFeed() = default;

  int n_ = 1;  // choices of a prompt
  std::vector<std::shared_ptr<TokenStream>> streams_;
};

}  // namespace millrace
