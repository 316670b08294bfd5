#include "server/generation_source.h"

#include <utility>

#include "server/sse.h"

namespace millrace {
namespace {

// Of a long answer that is there already no more is written at once, so that its beginning goes out
// and the other connections of the thread have their turn.
constexpr int kMaxEventsAtOnce = 128;

}  // namespace

GenerationSource::GenerationSource(bool streams,
                                   int n,
                                   std::unique_ptr<AnswerFeed> feed,
                                   std::unique_ptr<AnswerWriter> writer,
                                   Waker wake)
    : streams_(streams),
      n_(n),
      feed_(std::move(feed)),
      writer_(std::move(writer)),
      wake_(std::move(wake)) {}

GenerationSource::~GenerationSource() = default;

ReplySource::Progress GenerationSource::pull(HttpResponse& response) {
  if (!has_begun_) {
    writer_->begin(response.body);
    has_begun_ = true;
  }
  StreamEvent event;
  int n_events = 0;
  while (!failure_ && feed_->try_next(event)) {
    take(event, response.body);
    if (++n_events == kMaxEventsAtOnce && !failure_) {
      wake_();
      return Progress::kWaiting;
    }
  }
  if (failure_) {
    fail(response);
    return Progress::kFinished;
  }
  if (!feed_->is_finished()) {
    return Progress::kWaiting;
  }
  const auto outcome = feed_->cache_outcome();
  writer_->end({total_, outcome}, response.body);
  if (outcome && !streams_) {
    response.headers.push_back({kResponseCacheHeader, cache_outcome_name(*outcome)});
  }
  return Progress::kFinished;
}

void GenerationSource::take(StreamEvent& event, std::string& out) {
  if (const auto* token = std::get_if<TokenEvent>(&event.body)) {
    writer_->token(event.choice, *token, out);
  } else if (const auto* prompt = std::get_if<PromptEvent>(&event.body)) {
    writer_->prompt(event.choice, *prompt, out);
  } else {
    take_finish(event.choice, std::get<FinishEvent>(event.body), out);
  }
}

void GenerationSource::take_finish(int choice, const FinishEvent& finish, std::string& out) {
  if (finish.reason == FinishReason::kError) {
    failure_ = to_api_error(finish.error);
  } else if (finish.reason == FinishReason::kCancelled) {
    failure_ = ApiError{ApiCode::kUnavailable, "the server ended this request to shut down"};
  } else {
    writer_->finish(choice, finish, out);
  }
  const bool is_found = feed_->cache_outcome() == CacheOutcome::kHit;
  if (choice % n_ == 0) {  // the choices of a prompt share it
    total_.prompt_tokens += finish.usage.prompt_tokens;
    total_.cached_tokens += is_found ? finish.usage.prompt_tokens : finish.usage.cached_tokens;
  }
  total_.completion_tokens += finish.usage.completion_tokens;
  if (!is_found) {
    total_.accepted_drafts += finish.usage.accepted_drafts;
    total_.rejected_drafts += finish.usage.rejected_drafts;
  }
}

// What was sent stays; a stream says so in an event, another answer becomes the error.
void GenerationSource::fail(HttpResponse& response) {
  feed_.reset();  // cancels
  if (streams_) {
    response.status = failure_->status();  // the head is out: only for the counters
    append_sse(response.body, error_json(*failure_));
    response.body += kSseDone;
  } else {
    response = error_response(*failure_);
  }
}

}  // namespace millrace
