#include "base/regular_file.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

namespace millrace {
namespace {

std::string path_of(const char* name) {
  return testing::TempDir() + "millrace_regular_file_" + name + std::to_string(getpid());
}

void expect_refused(const std::string& path, ErrorCode code, const std::string& words) {
  const auto file = read_regular_file(path, 10);
  ASSERT_FALSE(file) << path;
  EXPECT_EQ(file.error().code, code) << file.error().message;
  EXPECT_EQ(file.error().message.find(path), 0U) << file.error().message;
  EXPECT_NE(file.error().message.find(words), std::string::npos) << file.error().message;
}

TEST(RegularFile, is_read_whole_up_to_the_limit) {
  const std::string path = path_of("text");
  std::ofstream(path) << "0123456789";
  const auto text = read_regular_file(path, 10);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "0123456789");
  EXPECT_EQ(RegularFile::open(path)->size(), 10U);
  std::ofstream(path, std::ios::app) << "x";
  expect_refused(path, ErrorCode::kIo, "at most 10 bytes");
  std::remove(path.c_str());
}

TEST(RegularFile, is_read_without_a_byte_order_mark) {
  const std::string path = path_of("mark");
  std::ofstream(path) << "\xEF\xBB\xBF"
                      << "a\xEF\xBB\xBF";
  EXPECT_EQ(read_regular_file(path, 10).value_or(""), "a\xEF\xBB\xBF");
  std::ofstream(path) << "\xEF\xBB";
  EXPECT_EQ(read_regular_file(path, 10).value_or(""), "\xEF\xBB");
  std::remove(path.c_str());
}

TEST(RegularFile, nothing_else_is_opened_or_waited_for) {
  const std::string pipe = path_of("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_refused(pipe, ErrorCode::kIo, "is a pipe, expected a regular file");
  std::remove(pipe.c_str());
  const std::string socket_path = path_of("s");
  const int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(socket_path.size(), sizeof(address.sun_path));
  std::strcpy(address.sun_path, socket_path.c_str());
  ASSERT_EQ(bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  expect_refused(socket_path, ErrorCode::kIo, "is a socket");
  close(descriptor);
  std::remove(socket_path.c_str());
  expect_refused("/dev/zero", ErrorCode::kIo, "is a device");
  expect_refused(testing::TempDir(), ErrorCode::kIo, "is a folder");
  expect_refused(path_of("missing"), ErrorCode::kNotFound, "No such file");
}

}  // namespace
}  // namespace millrace
