#include "cli/http_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "cli/stop_event.h"

namespace millrace {
namespace {

using Framing = BodyDecoder::Framing;

TEST(ParseUrl, takes_hosts_ports_and_prefixes) {
  const auto plain = parse_url("http://127.0.0.1:8080");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->host, "127.0.0.1");
  EXPECT_EQ(plain->port, "8080");
  EXPECT_EQ(plain->path, "");
  const auto prefixed = parse_url("localhost/api/");
  ASSERT_TRUE(prefixed);
  EXPECT_EQ(prefixed->port, "80");
  EXPECT_EQ(prefixed->path, "/api");
  const auto v6 = parse_url("http://[::1]:9");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->port, "9");
  EXPECT_EQ(v6->authority(), "[::1]:9");
  const auto shouted = parse_url("HTTP://Some-Host_1.example:65535");
  ASSERT_TRUE(shouted);
  EXPECT_EQ(shouted->authority(), "Some-Host_1.example:65535");
}

TEST(ParseUrl, says_what_is_wrong_and_what_was_expected) {
  const std::pair<const char*, const char*> cases[] = {
      {"http://", "the host is missing"},
      {"http:///v1", "the host is missing"},
      {"", "the host is missing"},
      {":8080", "the host is missing"},
      {"http://host:port", "a number from 1 to 65535"},
      {"http://host:", "a number from 1 to 65535"},
      {"http://host:0", "a number from 1 to 65535"},
      {"http://host:65536", "a number from 1 to 65535"},
      {"http://host:73617", "a number from 1 to 65535"},
      {"http://host:99999999999999999999", "a number from 1 to 65535"},
      {"http://host:-1", "a number from 1 to 65535"},
      {"http://host:+1", "a number from 1 to 65535"},
      {"http://[::1]8080", "nothing but a port"},
      {"http://::1:8080", "an IPv6 address is written in [ ]"},
      {"http://[::1", "hold an IPv6 address"},
      {"http://[]:80", "hold an IPv6 address"},
      {"http://[1.2.3.4]:80", "hold an IPv6 address"},
      {"ftp://host", "the scheme is not http"},
      {"http://me:secret@host", "a user name"},
      {"http://host/v1?x=1", "no ? and no #"},
      {"http://ho st", "no spaces"},
      {"http://host/a\r\nX: y", "no spaces"},
      {"http://ho*st", "neither a name nor an address"},
  };
  for (const auto& [text, words] : cases) {
    const auto url = parse_url(text);
    ASSERT_FALSE(url) << text;
    EXPECT_NE(url.error().message.find(words), std::string::npos) << url.error().message;
    EXPECT_NE(url.error().message.find("expected http://HOST:PORT/PATH"), std::string::npos);
    EXPECT_EQ(url.error().message.find('\n'), std::string::npos);
  }
  EXPECT_EQ(parse_url("https://x").error().code, ErrorCode::kUnsupported);
}

// Cut at every place, a chunked body is the same.
TEST(BodyDecoder, chunks_may_be_cut_anywhere) {
  const std::string wire =
      "4\r\nWiki\r\n6;x=y\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nT: 1\r\n\r\n";
  for (size_t cut = 0; cut <= wire.size(); ++cut) {
    BodyDecoder decoder(Framing::kChunked, 0);
    std::string body;
    EXPECT_TRUE(decoder.feed(wire.substr(0, cut), body));
    EXPECT_EQ(decoder.is_complete(), cut == wire.size());
    EXPECT_TRUE(decoder.feed(wire.substr(cut), body));
    EXPECT_TRUE(decoder.is_complete());
    EXPECT_EQ(body, "Wikipedia in \r\n\r\nchunks.");
  }
}

TEST(BodyDecoder, broken_chunks_are_noticed) {
  for (const char* wire : {"zz\r\n", "2\r\nabc\r\n"}) {
    BodyDecoder decoder(Framing::kChunked, 0);
    std::string body;
    EXPECT_FALSE(decoder.feed(wire, body)) << wire;
  }
}

TEST(BodyDecoder, lengths_are_kept) {
  BodyDecoder decoder(Framing::kLength, 3);
  std::string body;
  EXPECT_TRUE(decoder.feed("ab", body));
  EXPECT_FALSE(decoder.is_complete());
  EXPECT_TRUE(decoder.feed("cd", body));
  EXPECT_TRUE(decoder.is_complete());
  EXPECT_EQ(body, "abc");
  EXPECT_TRUE(BodyDecoder(Framing::kLength, 0).is_complete());
}

TEST(SseReader, events_may_be_cut_anywhere) {
  const std::string wire =
      ": comment\ndata: {\"a\":1}\n\ndata:two\r\ndata: lines\r\n\r\nevent: x\n\ndata: [DONE]\n\n";
  for (size_t cut = 0; cut <= wire.size(); ++cut) {
    SseReader reader;
    std::vector<std::string> events;
    const auto keep = [&](std::string_view data) { events.emplace_back(data); };
    reader.feed(wire.substr(0, cut), keep);
    reader.feed(wire.substr(cut), keep);
    EXPECT_EQ(events, (std::vector<std::string>{"{\"a\":1}", "two\nlines", "[DONE]"})) << cut;
  }
}

TEST(Exchange, says_when_nobody_listens) {
  const auto url = parse_url("http://127.0.0.1:1");
  ASSERT_TRUE(url);
  const auto status = exchange(*url, {}, [](std::string_view) {});
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("is the server running?"), std::string::npos);
}

// A server that accepts and says nothing.
class SilentServer {
 public:
  SilentServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    ::listen(listener_, 4);
    socklen_t size = sizeof(address);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    url_ = {"127.0.0.1", std::to_string(ntohs(address.sin_port)), ""};
  }
  ~SilentServer() { ::close(listener_); }
  const Url& url() const { return url_; }

 private:
  const int listener_;
  Url url_;
};

TEST(Exchange, ends_when_it_is_stopped_or_nothing_comes) {
  const SilentServer server;
  StopEvent stop;
  ClientRequest request;
  request.body = std::string(size_t{64} << 20, 'x');  // more than the kernel takes
  request.stop_descriptor = stop.descriptor();
  std::thread raiser([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop.raise();
  });
  const auto sending = exchange(server.url(), request, [](std::string_view) {});
  raiser.join();
  request.body.clear();
  const auto waiting = exchange(server.url(), request, [](std::string_view) {});
  for (const auto& status : {sending, waiting}) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kCancelled) << status.error().message;
  }
  request.stop_descriptor = -1;
  request.timeout = std::chrono::seconds(1);
  const auto late = exchange(server.url(), request, [](std::string_view) {});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().message, "nothing came for 1 s");
}

TEST(StopEvent, ends_a_sleep_and_stays_raised) {
  StopEvent stop;
  EXPECT_FALSE(stop.wait_until(Clock::now() + std::chrono::milliseconds(1)));
  EXPECT_FALSE(stop.wait_until(Clock::now() - std::chrono::seconds(1)));
  std::thread raiser([&] { stop.raise(); });
  EXPECT_TRUE(stop.wait_until(Clock::now() + std::chrono::hours(1)));
  raiser.join();
  EXPECT_TRUE(stop.wait_until(Clock::now()));
  EXPECT_TRUE(stop.is_raised());
}

}  // namespace
}  // namespace millrace
