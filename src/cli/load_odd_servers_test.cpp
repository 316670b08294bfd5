// Servers that say less, more or other things than HTTP and the API ask for: what is not a whole
// answer is an error in the report, on one line.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "cli/command.h"

namespace millrace {
namespace {

using nlohmann::json;

// Answers every connection with the same bytes once the head of a request has come, and closes it.
class RawServer {
 public:
  explicit RawServer(std::string answer) : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    ::listen(listener_, 16);
    socklen_t size = sizeof(address);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, answer = std::move(answer)] {
      for (int peer = ::accept(listener_, nullptr, nullptr); peer >= 0;
           peer = ::accept(listener_, nullptr, nullptr)) {
        std::string head;
        char bytes[4096];
        while (!head.ends_with("\r\n\r\n") && !head.ends_with('}')) {
          const ssize_t n = ::recv(peer, bytes, sizeof(bytes), 0);
          if (n <= 0) {
            break;
          }
          head.append(bytes, static_cast<size_t>(n));
        }
        const bool asks_health = head.starts_with("GET");
        const std::string reply =
            asks_health ? "HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n" : answer;
        ::send(peer, reply.data(), reply.size(), MSG_NOSIGNAL);
        ::close(peer);
      }
    });
  }
  ~RawServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  const int listener_;
  int port_ = 0;
  std::thread thread_;
};

json load_report_of(const std::string& answer) {
  const RawServer server(answer);
  testing::internal::CaptureStdout();
  const auto status = load_command(std::vector<std::string>{
      server.url(), "-r", "1", "--model", "m", "--timeout", "5", "--json"});
  json report = json::parse(testing::internal::GetCapturedStdout(), nullptr, false);
  EXPECT_EQ(status.has_value(), report.value("whole", 0) == 1) << answer;
  return report;
}

const std::string kHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
const std::string kText = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n";
const std::string kEnd =
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n"
    "data: [DONE]\n\n";

TEST(LoadFromOddServers, what_is_whole_counts) {
  const std::string oddities =
      "data: [1]\n\ndata: {\"choices\":[3]}\n\ndata: {\"choices\":[{\"delta\":null}]}\n\n";
  for (const std::string& answer :
       {"HTTP/1.0 200 OK\r\n\r\n" + kText + kEnd,
        "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + kHead + "\r\n" + kText + kEnd,
        kHead + "\r\n" + oddities + kText + kEnd}) {
    EXPECT_EQ(load_report_of(answer)["whole"], 1) << answer;
  }
}

TEST(LoadFromOddServers, thoughts_are_text_and_answers_without_text_have_no_first_token) {
  const std::string thought =
      "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n";
  EXPECT_EQ(load_report_of(kHead + "\r\n" + thought + kEnd)["first_token_seconds"]["n"], 1);
  const json silent = load_report_of(kHead + "\r\n" + kEnd);
  EXPECT_EQ(silent["whole"], 1);
  EXPECT_EQ(silent["first_token_seconds"]["n"], 0);
}

TEST(LoadFromOddServers, all_else_is_an_error_on_one_line) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "closed the connection without an answer"},
      {"HTTP/1.1 20", "closed the connection without an answer"},
      {"SSH-2.0-OpenSSH\r\n\r\n", "did not answer in HTTP/1.1"},
      {"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "HTTP 204: an empty body"},
      {"HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n",
       "HTTP 301: an empty body"},
      {"HTTP/1.1 502 Bad\r\n\r\n<html>\n\x1b[31m</html>", "HTTP 502: <html>  [31m</html>"},
      {"HTTP/1.1 500 Oops\r\n\r\n{\"error\":\"plain\"}", "HTTP 500: plain"},
      {"HTTP/1.1 500 Oops\r\n\r\n{\"error\":{\"message\":\"\"}}", "HTTP 500: "},
      {kHead + "Content-Length: 5000\r\n\r\n" + kText + kEnd, "the answer broke off"},
      {kHead + "Content-Length: x\r\n\r\n" + kText + kEnd, "not a number"},
      {kHead + "Transfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n", "the answer broke off"},
      {kHead + "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\nx", "chunks"},
      {kHead + "\r\n" + kText, "without finish_reason and [DONE]"},
      {kHead + "\r\ndata: {oops\n\ndata: [DONE]\n\n", "a chunk is not JSON"},
      {kHead + "\r\ndata: {\"error\":\"plain\"}\n\n", "plain"},
      {kHead + "\r\n" + kText +
           "data: "
           "{\"choices\":[{\"finish_reason\":\"stop\"}],\"usage\":{\"completion_tokens\":-2}}\n\n"
           "data: [DONE]\n\n",
       "usage counts no token"},
  };
  for (const auto& [answer, words] : cases) {
    const json report = load_report_of(answer);
    EXPECT_EQ(report["whole"], 0) << answer;
    ASSERT_EQ(report["errors"].size(), 1U) << answer;
    const std::string error = report["errors"].begin().key();
    EXPECT_NE(error.find(words), std::string::npos) << error;
    EXPECT_EQ(error.find_first_of("\n\x1b"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace millrace
