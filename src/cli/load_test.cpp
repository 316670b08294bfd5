// The load generator against a scripted server: what is counted, and what is called a failure.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/command.h"
#include "cli/load_progress.h"
#include "cli/load_report.h"
#include "server/http_server.h"

namespace millrace {
namespace {

using nlohmann::json;

// Says its pieces one after another with a pause before each.
class ScriptedSource : public ReplySource {
 public:
  ScriptedSource(Waker wake, std::vector<std::string> pieces, std::chrono::milliseconds pause)
      : pieces_(std::move(pieces)) {
    thread_ = std::jthread([this, wake, pause] {
      for (size_t i = 0; i < pieces_.size(); ++i) {
        std::this_thread::sleep_for(pause);
        ++n_ready_;
        wake();
      }
    });
  }
  Progress pull(HttpResponse& response) override {
    for (const size_t n = n_ready_.load(); n_said_ < n; ++n_said_) {
      response.body += "data: " + pieces_[n_said_] + "\n\n";
    }
    return n_said_ == pieces_.size() ? Progress::kFinished : Progress::kWaiting;
  }

 private:
  std::vector<std::string> pieces_;
  std::atomic<size_t> n_ready_{0};
  size_t n_said_ = 0;
  std::jthread thread_;
};

std::string piece(const std::string& text) {
  return json{{"choices", {{{"delta", {{"content", text}}}, {"finish_reason", nullptr}}}}}.dump();
}
const std::string kReason = R"({"choices":[{"delta":{},"finish_reason":"stop"}]})";
const std::string kUsage =
    R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":7,"total_tokens":10}})";

class LoadTest : public testing::Test {
 protected:
  void serve(std::vector<std::string> pieces, int status = 200) {
    HttpServerOptions options;
    options.port = 0;
    HttpHandler handler;
    handler.admit = [](const HttpRequest&) { return std::nullopt; };
    handler.refuse = [](int code, std::string_view, const HttpRequest*) {
      return HttpResponse{code, "", {}, ""};
    };
    handler.handle = [=, this](HttpRequest request, const Waker& wake) {
      Reply reply;
      if (request.path == "/v1/models") {
        reply.response.body = R"({"data":[{"id":"scripted"}]})";
      } else if (request.path == "/health/ready") {
        reply.response.status = n_not_ready_-- > 0 ? 503 : 200;
      } else if (status != 200) {
        reply.response.status = status;
        reply.response.body = R"({"error":{"message":"queue full"}})";
      } else {
        ++n_answered_;
        {
          const std::lock_guard lock(last_mutex_);  // several I/O threads answer
          last_body_ = request.body;
          last_path_ = request.path;
        }
        reply.streams = true;
        reply.source =
            std::make_unique<ScriptedSource>(wake, pieces, std::chrono::milliseconds(pause_ms_));
      }
      return reply;
    };
    auto server = HttpServer::start(options, handler);
    ASSERT_TRUE(server);
    server_ = std::move(*server);
  }

  // The exit status (1 for an error), what was printed, and the report.
  int load(std::vector<std::string> arguments,
           const std::string& suffix = "",
           bool is_json = true) {
    arguments.insert(arguments.begin(), server_->url() + suffix);
    if (is_json) {
      arguments.push_back("--json");
    }
    testing::internal::CaptureStdout();
    const auto status = load_command(arguments);
    printed_ = testing::internal::GetCapturedStdout();
    report_ = json::parse(printed_, nullptr, false);
    error_ = status ? "" : status.error().message;
    return status ? *status : 1;
  }

  int pause_ms_ = 1;
  std::atomic<int> n_not_ready_{0};
  std::atomic<int> n_answered_{0};
  std::mutex last_mutex_;
  std::string last_body_;
  std::string last_path_;
  std::string printed_;
  std::string error_;
  std::unique_ptr<HttpServer> server_;
  json report_;
};

TEST_F(LoadTest, counts_tokens_by_usage_and_not_by_chunks) {
  n_not_ready_ = 2;
  serve({piece("a"), piece("b c d"), kReason, kUsage, "[DONE]"});
  EXPECT_EQ(load({"--requests", "6", "--concurrency", "3", "--max-tokens", "50"}), 0);
  EXPECT_EQ(report_["whole"], 6);
  EXPECT_EQ(report_["completion_tokens"], 42);
  EXPECT_EQ(report_["prompt_tokens"], 18);
  EXPECT_EQ(n_answered_.load(), 6);
  const json body = json::parse(last_body_);
  EXPECT_EQ(body["model"], "scripted");
  EXPECT_EQ(body["stream_options"]["include_usage"], true);
  EXPECT_EQ(body["max_tokens"], 50);
}

TEST_F(LoadTest, time_to_the_first_token_is_not_a_gap_between_tokens) {
  pause_ms_ = 20;
  serve({piece(""), piece("a"), piece("b"), piece("c"), kReason, kUsage, "[DONE]"});
  EXPECT_EQ(load({"--requests", "2", "--concurrency", "1"}), 0);
  EXPECT_EQ(report_["inter_token_seconds"]["n"], 4);  // two gaps each
  EXPECT_EQ(report_["first_token_seconds"]["n"], 2);
  EXPECT_GE(report_["first_token_seconds"]["p50"].get<double>(), 0.04);
  EXPECT_GE(report_["answer_seconds"]["p50"].get<double>(), 0.14);
}

TEST_F(LoadTest, errors_in_the_stream_are_errors) {
  serve({piece("a"), R"({"error":{"message":"numbers broke"}})", "[DONE]"});
  EXPECT_EQ(load({"--requests", "2"}), 1);
  EXPECT_EQ(report_["whole"], 0);
  EXPECT_EQ(report_["broken"], 2);
  EXPECT_EQ(report_["errors"]["numbers broke"], 2);
  EXPECT_EQ(report_["first_token_seconds"]["n"], 0);
}

TEST_F(LoadTest, stream_that_waited_too_long_is_refused_and_errors_count_without_their_numbers) {
  serve({R"({"error":{"message":"waited 1201 ms","code":"rate_limit_exceeded"}})", "[DONE]"});
  EXPECT_EQ(load({"--requests", "2"}), 1);
  EXPECT_EQ(report_["refused"], 2);
  EXPECT_EQ(report_["broken"], 0);
  LoadReport report;
  for (const char* error : {"waited 7 ms", "waited 1201 ms", "waited 15 s"}) {
    LoadSample& sample = report.samples.emplace_back();
    sample.status = 429;
    sample.error = error;
  }
  report.concurrency = 8;
  const std::string text = report_text(report);
  EXPECT_TRUE(text.starts_with("3 requests, 3 at once: ")) << text;  // no more than there are
  EXPECT_NE(text.find("2 x HTTP 429: waited 7 ms\n"), std::string::npos) << text;
  EXPECT_NE(text.find("1 x HTTP 429: waited 15 s\n"), std::string::npos) << text;
}

TEST_F(LoadTest, streams_that_end_early_are_errors) {
  serve({piece("a")});
  EXPECT_EQ(load({"--requests", "1"}), 1);
  EXPECT_EQ(report_["broken"], 1);
  serve({piece("a"), kReason, "[DONE]"});
  EXPECT_EQ(load({"--requests", "1"}), 1);
  EXPECT_EQ(report_["errors"].begin().key(), "the stream had no usage");
}

TEST_F(LoadTest, refusals_and_short_answers_are_listed_apart) {
  serve({}, 429);
  EXPECT_EQ(load({"--requests", "3", "--model", "m"}), 1);
  EXPECT_EQ(report_["refused"], 3);
  EXPECT_EQ(report_["errors"]["HTTP 429: queue full"], 3);
  serve({piece("a"), kReason, kUsage, "[DONE]"});
  EXPECT_EQ(load({"--requests", "2", "--ignore-eos", "--max-tokens", "8"}), 1);
  EXPECT_EQ(report_["short"], 2);
  EXPECT_EQ(load({"--requests", "2", "--ignore-eos", "--max-tokens", "7"}), 0);
}

TEST_F(LoadTest, an_answer_that_ends_at_once_is_whole_and_empty) {
  serve({kReason, R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":0}})", "[DONE]"});
  EXPECT_EQ(load({"--requests", "2"}), 0) << error_;
  EXPECT_EQ(report_["whole"], 2);
  EXPECT_EQ(report_["empty"], 2);
  EXPECT_EQ(report_["first_token_seconds"]["n"], 0);
  EXPECT_EQ(report_["answer_seconds"]["n"], 2);
}

TEST(LoadReport, percentiles_are_of_whole_answers_and_rates_of_what_came) {
  LoadReport report;
  report.concurrency = 3;
  report.seconds = 2;
  report.samples = {
      {.status = 200, .completion_tokens = 6, .first_token = 0.1, .whole = 0.4, .gaps = {0.1}},
      {.status = 200,
       .is_short = true,
       .completion_tokens = 4,
       .first_token = 0.9,
       .whole = 1.9,
       .gaps = {0.8}},
      {.status = 200, .error = "broke off", .completion_tokens = 90, .first_token = 0.9}};
  const json found = json::parse(report_json(report));
  EXPECT_EQ(found["tokens_per_second"], 5);
  for (const char* name : {"first_token_seconds", "inter_token_seconds", "answer_seconds"}) {
    EXPECT_EQ(found[name]["n"], 1) << name;
  }
}

TEST_F(LoadTest, when_nothing_was_whole_no_figure_is_shown) {
  serve({}, 429);
  EXPECT_EQ(load({"--requests", "3", "--model", "m"}), 1);
  EXPECT_EQ(error_, "3 of 3 answers were not whole");
  EXPECT_TRUE(report_["first_token_seconds"]["p50"].is_null());
  EXPECT_TRUE(report_["tokens_per_second"].is_null());
  EXPECT_EQ(load({"--requests", "3", "--model", "m"}, "", false), 1);
  EXPECT_NE(printed_.find("3 x HTTP 429: queue full"), std::string::npos) << printed_;
  EXPECT_EQ(printed_.find("tokens/s"), std::string::npos) << printed_;
}

TEST_F(LoadTest, a_v1_at_the_end_of_the_url_is_taken_off) {
  serve({piece("a"), kReason, kUsage, "[DONE]"});
  EXPECT_EQ(load({"--requests", "1"}, "/v1"), 0);
  EXPECT_EQ(last_path_, "/v1/chat/completions");
  EXPECT_EQ(load({"--requests", "1"}, "/v1/"), 0);
  EXPECT_EQ(load({"--requests", "1"}, "/v2"), 1);
  EXPECT_NE(error_.find("/v2/v1/models"), std::string::npos) << error_;
}

TEST_F(LoadTest, the_shown_answer_does_not_get_into_the_json) {
  serve({piece("shown"), kReason, kUsage, "[DONE]"});
  EXPECT_EQ(load({"--requests", "1", "--show-one"}), 0);
  EXPECT_EQ(report_["whole"], 1) << printed_;
  EXPECT_EQ(load({"--requests", "1", "--show-one"}, "", false), 0);
  EXPECT_NE(printed_.find("shown"), std::string::npos);
}

TEST_F(LoadTest, key_files_are_checked_before_anything_is_sent) {
  serve({piece("a"), kReason, kUsage, "[DONE]"});
  EXPECT_EQ(load({"--api-key-file", "/nonexistent/key"}), 1);
  EXPECT_NE(error_.find("--api-key-file /nonexistent/key"), std::string::npos) << error_;
  const std::string path = testing::TempDir() + "millrace_load_key_" + std::to_string(getpid());
  for (const char* bad : {"", "\nkey\n", "two words\n", "k\x01\n"}) {
    std::ofstream(path) << bad;
    EXPECT_EQ(load({"--api-key-file", path}), 1) << bad;
    EXPECT_NE(error_.find("first line"), std::string::npos) << error_;
  }
  EXPECT_EQ(n_answered_.load(), 0);
  std::ofstream(path) << "secret \r\nmore\n";
  EXPECT_EQ(load({"--requests", "1", "--api-key-file", path}), 0) << error_;
  std::remove(path.c_str());
}

TEST_F(LoadTest, the_temperature_is_one_unless_asked) {
  serve({piece("a"), kReason, kUsage, "[DONE]"});
  EXPECT_EQ(load({"--requests", "1"}), 0);
  EXPECT_EQ(json::parse(last_body_)["temperature"], 1);
}

TEST_F(LoadTest, with_a_rate_nobody_waits_for_a_place) {
  serve({piece("a"), kReason, kUsage, "[DONE]"});
  EXPECT_EQ(load({"--requests", "40", "--rate", "100000"}), 0);
  EXPECT_EQ(report_["concurrency"], 40);
}

// Blocked here and in all threads that are made meanwhile, so that whoever waits for it gets it.
class Blocked {
 public:
  explicit Blocked(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, &previous_);
  }
  ~Blocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;

 private:
  sigset_t previous_{};
};

TEST_F(LoadTest, a_signal_ends_it_early_and_what_came_is_shown) {
  const Blocked blocked(SIGINT);
  serve({piece("a"), kReason, kUsage, "[DONE]"});
  std::jthread interrupter([&] {
    while (n_answered_.load() < 5) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ::kill(::getpid(), SIGINT);
  });
  const std::vector<std::string> endless = {"--requests", "100000", "--concurrency", "2"};
  EXPECT_EQ(load(endless), 130) << error_;
  EXPECT_EQ(report_["cut_short"], true);
  EXPECT_EQ(report_["requests_asked"], 100000);
  EXPECT_GE(report_["requests"], 3);  // of five at least that were begun, two may be under way
  EXPECT_LE(report_["requests"], n_answered_.load());
  EXPECT_EQ(report_["whole"], report_["requests"]);
  EXPECT_EQ(report_["broken"], 0);
}

TEST_F(LoadTest, a_signal_ends_the_wait_for_the_next_start) {
  const Blocked blocked(SIGTERM);
  serve({piece("a"), kReason, kUsage, "[DONE]"});
  std::jthread interrupter([&] {
    while (n_answered_.load() < 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ::kill(::getpid(), SIGTERM);
  });
  EXPECT_EQ(load({"--requests", "3", "--rate", "0.0001"}, "", false), 143) << error_;
  EXPECT_EQ(n_answered_.load(), 1);
  EXPECT_TRUE(printed_.starts_with("cut short: ")) << printed_;
}

TEST(LoadReport, says_when_it_was_cut_short_and_what_rate_there_was) {
  LoadReport report;
  report.rate = 5;
  report.seconds = 2;
  report.n_asked = 64;
  for (const double started : {0.5, 0.0, 1.5}) {  // in any order
    report.samples.push_back({.status = 200, .whole = 0.1, .started = started, .ended = 2});
  }
  EXPECT_EQ(report.sent_rate(), 2 / 1.5);
  EXPECT_TRUE(
      report_text(report).starts_with("3 requests, 5 a second asked for, 1.33 sent: 3 whole"))
      << report_text(report);
  LoadReport without_rate = report;
  without_rate.rate = 0;
  EXPECT_EQ(without_rate.sent_rate(), 0);
  report.is_cut_short = true;
  EXPECT_TRUE(report_text(report).starts_with("cut short: 3 of 64 requests had ended"))
      << report_text(report);
  report.samples.resize(1);
  EXPECT_TRUE(json::parse(report_json(report))["sent_rate"].is_null());
  EXPECT_NE(report_text(report).find("1 request, 5 a second asked for: "), std::string::npos);
  report.rate = 0;
  report.concurrency = 8;  // and eight there were, whatever had ended
  EXPECT_NE(report_text(report).find("1 request, 8 at once: "), std::string::npos);
}

TEST(LoadProgress, is_one_line) {
  EXPECT_EQ(
      load_progress_text({.n_requests = 64, .n_begun = 20, .n_ended = 12, .n_tokens = 1612}, 9),
      "12 of 64 ended, 8 under way, 1612 tokens in 9 s");
  EXPECT_EQ(load_progress_text({.n_requests = 64, .n_begun = 2, .n_ended = 2, .n_faulty = 1}, 0),
            "2 of 64 ended, 1 not whole, 0 under way, 0 tokens in 0 s");
}

TEST_F(LoadTest, a_rate_spreads_the_starts) {
  serve({piece("a"), kReason, kUsage, "[DONE]"});
  EXPECT_EQ(load({"--requests", "10", "--rate", "50", "--concurrency", "10"}), 0);
  EXPECT_GT(report_["seconds"].get<double>(), 0.05);
  EXPECT_EQ(report_["rate"], 50);
  EXPECT_GT(report_["sent_rate"], 0);
  EXPECT_EQ(report_["cut_short"], false);
}

TEST(Percentile, is_the_nearest_rank) {
  EXPECT_EQ(percentile({}, 0.5), 0);
  EXPECT_EQ(percentile({3}, 0.99), 3);
  EXPECT_EQ(percentile({4, 1, 3, 2}, 0.5), 2);
  EXPECT_EQ(percentile({4, 1, 3, 2}, 0.9), 4);
  EXPECT_EQ(percentile({4, 1, 3, 2}, 0), 1);
}

}  // namespace
}  // namespace millrace
