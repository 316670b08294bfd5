#pragma once
// Feeds the events of an answer through its writer. One a request, on its I/O thread.

#include <memory>
#include <optional>
#include <string>

#include "server/answer_feed.h"
#include "server/answer_writer.h"
#include "server/api_error.h"
#include "server/http.h"

namespace millrace {

class GenerationSource : public ReplySource {
 public:
  // n: choices of a prompt. wake: makes the connection pull again.
  GenerationSource(bool streams,
                   int n,
                   std::unique_ptr<AnswerFeed> feed,
                   std::unique_ptr<AnswerWriter> writer,
                   Waker wake);
  ~GenerationSource() override;

  Progress pull(HttpResponse& response) override;

 private:
  void take(StreamEvent& event, std::string& out);
  void take_finish(int choice, const FinishEvent& finish, std::string& out);
  void fail(HttpResponse& response);

  const bool streams_;
  const int n_;
  std::unique_ptr<AnswerFeed> feed_;
  std::unique_ptr<AnswerWriter> writer_;
  const Waker wake_;
  Usage total_;
  std::optional<ApiError> failure_;
  bool has_begun_ = false;
};

}  // namespace millrace
