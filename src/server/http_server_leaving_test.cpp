// Clients that leave, close their sending side, send on or do not read.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "server/http_server_testing.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;

TEST_F(HttpServerTest, half_closed_client_still_gets_an_answer_that_is_ready) {
  start();
  RawClient client = connect(get("/a"));
  client.shutdown_send();
  ASSERT_TRUE(client.read_to_end());
  EXPECT_TRUE(client.has("{GET /a 0}"));
}

// shutdown(SHUT_WR) only says that no more requests follow.
TEST_F(HttpServerTest, half_closed_client_gets_an_answer_that_takes_a_while) {
  start();
  n_ticks_ = 50;
  for (const char* path : {"/ticks", "/late"}) {
    RawClient client = connect(get(path));
    client.shutdown_send();
    ASSERT_TRUE(client.read_to_end());
    EXPECT_TRUE(client.has("<49>")) << client.received;
    EXPECT_TRUE(client.has(" 200 OK\r\n"));
  }
  EXPECT_EQ(n_unfinished_.load(), 0);
}

TEST_F(HttpServerTest, a_client_that_leaves_is_noticed_in_all_modes) {
  start();
  int n_gone = 0;
  for (const bool was_half_closed : {false, true}) {
    for (const char* path : {"/ticks", "/late"}) {
      RawClient client = long_request(get(path));
      if (was_half_closed) {
        client.shutdown_send();
        std::this_thread::sleep_for(milliseconds(20));
      }
      client.close();
      expect_cancelled(++n_gone);
    }
  }
}

// It cannot be asked whether it is still there.
TEST_F(HttpServerTest, a_client_of_http_1_0_that_closes_its_sending_side_has_left) {
  start();
  int n_gone = 0;
  for (const char* path : {"/ticks", "/late"}) {
    RawClient client = long_request(fmt::format("GET {} HTTP/1.0\r\n\r\n", path));
    client.shutdown_send();
    expect_cancelled(++n_gone);
  }
}

TEST_F(HttpServerTest, leaving_is_noticed_behind_any_amount_of_pipelined_bytes) {
  start();
  int n_gone = 0;
  for (const char* version : {"HTTP/1.1", "HTTP/1.0"}) {
    for (const size_t n_bytes : {100, 300'000}) {
      RawClient client = long_request(fmt::format("GET /late {}\r\nHost: h\r\n\r\n", version));
      ASSERT_TRUE(client.send(std::string(n_bytes, 'p')));
      client.close();
      expect_cancelled(++n_gone);
    }
  }
}

TEST_F(HttpServerTest, too_much_behind_a_request_is_dropped_and_its_answer_still_comes) {
  start();
  n_ticks_ = 50;
  RawClient client = connect(get("/ticks"));
  ASSERT_TRUE(client.read_until("<1>"));
  ASSERT_TRUE(client.send(std::string(300'000, 'p')));
  ASSERT_TRUE(client.read_to_end());
  EXPECT_TRUE(client.has("<49>"));
}

TEST_F(HttpServerTest, slow_reader_holds_a_bounded_amount_and_is_cut_off) {
  HttpServerOptions options;
  options.write_timeout = milliseconds(200);
  start(options);
  RawClient client = connect();
  client.set_receive_buffer(4096);
  ASSERT_TRUE(client.send(get("/flood")));
  EXPECT_TRUE(eventually([&] { return n_floods_ended_.load() == 1; }));
  EXPECT_LT(n_flood_bytes_.load(), 16 << 20);  // what the kernel's socket buffers take
}

}  // namespace
}  // namespace millrace
