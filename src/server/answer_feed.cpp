#include "server/answer_feed.h"

#include <algorithm>
#include <utility>

#include "engine/engine.h"

namespace millrace {

Result<std::unique_ptr<AnswerFeed>> EngineFeed::submit(Engine& engine,
                                                       std::vector<Request> requests,
                                                       const std::function<void()>& on_ready) {
  std::unique_ptr<EngineFeed> feed(new EngineFeed);
  feed->n_ = requests.front().n;
  const auto group = std::make_shared<RequestGroup>();
  for (Request& request : requests) {
    request.group = group;
  }
  auto streams = engine.submit_all(std::move(requests), on_ready);
  if (!streams) {
    return propagate(streams);
  }
  feed->streams_ = std::move(*streams);
  return feed;
}

EngineFeed::~EngineFeed() {
  for (const auto& stream : streams_) {
    if (!stream->is_finished()) {
      stream->cancel();
    }
  }
}

bool EngineFeed::try_next(StreamEvent& event) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (!streams_[i]->is_finished() && streams_[i]->try_next(event)) {
      event.choice += static_cast<int>(i) * n_;
      return true;
    }
  }
  return false;
}

bool EngineFeed::is_finished() const {
  return std::ranges::all_of(streams_, [](const auto& stream) { return stream->is_finished(); });
}

}  // namespace millrace
