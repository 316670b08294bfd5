// Files of blocks under full disks, names that others chose, links, and a second server.

#include "kv/segment_store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr int kSkipped = 77;

// A process of its own, for what would change this one for good. check returns what was wrong.
void in_child(const std::function<std::string()>& check) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string fault = check();
    if (!fault.empty() && fault != "skip") {
      fmt::print(stderr, "{}\n", fault);
    }
    ::_exit(fault.empty() ? 0 : fault == "skip" ? kSkipped : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kSkipped) {
    GTEST_SKIP() << "needs rights that this machine does not give";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

class SegmentStoreTest : public testing::Test {
 protected:
  struct Record {
    int number = 0;
    RecordPlace place;
  };

  SegmentStoreTest()
      : folder_(fs::temp_directory_path() /
                ("millrace_segment_store_test_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
  }
  ~SegmentStoreTest() override { fs::remove_all(folder_); }

  // Record n has its number as token, and content that depends on it.
  static std::vector<std::byte> content(int n, size_t n_bytes) {
    std::vector<std::byte> bytes(n_bytes);
    for (size_t i = 0; i < n_bytes; ++i) {
      bytes[i] = std::byte(static_cast<size_t>(n) * 31 + i * i);
    }
    return bytes;
  }
  static Result<RecordPlace> append(SegmentStore& store, int n, size_t n_bytes) {
    Sha256 sha;
    std::vector<std::byte> bytes = content(n, n_bytes);
    RecordHead head{.key = {}, .parent = {}, .tokens = {n}, .payload_bytes = n_bytes};
    head.payload_digest = payload_digest({.target = bytes}, sha);
    return store.append(head, bytes);
  }
  static bool is_whole(const RecordPlace& place, int n, size_t n_bytes) {
    Sha256 sha;
    std::vector<std::byte> bytes(n_bytes);
    const TokenId token = n;
    return read_record(place, {.tokens = {&token, 1}}, {.target = bytes}, sha) &&
           bytes == content(n, n_bytes);
  }
  // found_: what it had.
  Result<SegmentStore> open(int64_t max_bytes) {
    found_.clear();
    return SegmentStore::open(
        folder_.string(), max_bytes, [&](const RecordHead& head, const RecordPlace& place) {
          found_.push_back({.number = head.tokens[0], .place = place});
        });
  }
  int64_t bytes_of_files() const {
    int64_t n_bytes = 0;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      n_bytes += static_cast<int64_t>(entry.file_size());
    }
    return n_bytes;
  }
  fs::path segment(int64_t number) const { return folder_ / fmt::format("{:010}.kv", number); }
  static std::string read_file(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write_file(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  // Writes to a disk that is too small for max_bytes. Returns what was wrong.
  std::string fill(int64_t max_bytes, int n_records, size_t n_bytes, int n_failures_allowed) {
    auto store = open(max_bytes);
    if (!store) {
      return store.error().message;
    }
    int n_written = 0;
    int n_failed_in_a_row = 0;
    for (int n = 0; n < n_records; ++n) {
      const auto place = append(*store, n, n_bytes);
      store->take_dropped();  // nobody reads them
      n_failed_in_a_row = place ? 0 : n_failed_in_a_row + 1;
      n_written += place ? 1 : 0;
      if (n_failed_in_a_row > n_failures_allowed) {
        return fmt::format("record {}: {}", n, place.error().message);
      }
      if (place && !is_whole(*place, n, n_bytes)) {
        return fmt::format("record {} is broken", n);
      }
    }
    return n_written > n_records / 2 ? "" : fmt::format("{} were written", n_written);
  }

  const fs::path folder_;
  std::vector<Record> found_;
};

TEST_F(SegmentStoreTest, the_youngest_records_are_found_again_in_their_order_and_within_the_size) {
  constexpr int64_t kMax = 60'000;
  std::mt19937 random(5);
  std::vector<size_t> sizes;  // of all records ever
  for (int reopened = 0; reopened < 30; ++reopened) {
    auto store = open(kMax);
    ASSERT_TRUE(store) << store.error().message;
    ASSERT_EQ(found_.empty(), sizes.empty());
    const auto n_before = static_cast<int>(sizes.size());
    for (size_t i = 0; i < found_.size(); ++i) {
      const int number = n_before - static_cast<int>(found_.size() - i);
      EXPECT_EQ(found_[i].number, number);
      EXPECT_TRUE(is_whole(found_[i].place, number, sizes[static_cast<size_t>(number)]));
    }
    for (unsigned left = random() % 40 + 1; left > 0; --left) {
      sizes.push_back(random() % 3'000);
      const int number = static_cast<int>(sizes.size()) - 1;
      const auto place = append(*store, number, sizes.back());
      ASSERT_TRUE(place) << place.error().message;
      EXPECT_TRUE(is_whole(*place, number, sizes.back()));
      EXPECT_LE(store->n_bytes(), kMax);
      EXPECT_EQ(bytes_of_files(), store->n_bytes());
    }
  }
}

TEST_F(SegmentStoreTest, a_record_larger_than_everything_is_refused_and_costs_nothing) {
  auto store = *open(10'000);
  ASSERT_TRUE(append(store, 1, 5'000));
  EXPECT_FALSE(append(store, 2, 10'000));
  EXPECT_TRUE(store.take_dropped().empty());
  EXPECT_TRUE(append(store, 3, 1'000));
}

// A disk of one MiB, for stores whose segments are much smaller and as large as that.
TEST_F(SegmentStoreTest, a_full_disk_makes_room_for_what_comes) {
  for (const int64_t max_bytes : {int64_t{4} << 20, int64_t{64} << 20}) {
    in_child([&]() -> std::string {
      fs::create_directory(folder_);
      const bool is_root = ::geteuid() == 0;
      if (::unshare(is_root ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
          ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=1m") != 0) {
        return "skip";
      }
      return fill(max_bytes, 400, 20'000, 2);
    });
  }
}

// What the system does not let grow is one file, not all.
TEST_F(SegmentStoreTest, a_file_that_may_not_grow_is_followed_by_another) {
  in_child([&]() -> std::string {
    const rlimit tight{.rlim_cur = 50'000, .rlim_max = 50'000};
    ::setrlimit(RLIMIT_FSIZE, &tight);
    ::signal(SIGXFSZ, SIG_IGN);
    return fill(4 << 20, 400, 5'000, 1);
  });
}

TEST_F(SegmentStoreTest, files_of_other_names_are_left_alone) {
  fs::create_directory(folder_);
  const std::vector<std::string> names = {"9223372036854775807.kv",
                                          "9223372036854775808.kv",
                                          "99999999999999999999999999.kv",
                                          "10000000001.kv",
                                          "00000000001.kv",
                                          "0000000000.kv",
                                          "-000000001.kv",
                                          "+000000001.kv",
                                          " 000000001.kv",
                                          "1.kv",
                                          "0000000001",
                                          "0000000001.KV",
                                          "0000000001.kv.bak",
                                          "0000000001.kv\n",
                                          ".kv"};
  for (const std::string& name : names) {
    write_file(folder_ / name, "not ours: " + name);
  }
  for (int opened = 0; opened < 3; ++opened) {
    auto store = open(40'000);
    ASSERT_TRUE(store) << store.error().message;
    EXPECT_EQ(found_.empty(), opened == 0);
    for (int n = 0; n < 50; ++n) {
      ASSERT_TRUE(append(*store, n, 1'000));
    }
    EXPECT_LE(store->n_bytes(), 40'000);
  }
  for (const std::string& name : names) {
    EXPECT_EQ(read_file(folder_ / name), "not ours: " + name);
  }
}

TEST_F(SegmentStoreTest, the_last_number_there_is_ends_in_an_error) {
  fs::create_directory(folder_);
  write_file(segment(10'000'000'000), "");
  for (int opened = 0; opened < 2; ++opened) {
    auto store = open(32'000);
    ASSERT_TRUE(store) << store.error().message;
    Result<RecordPlace> place;
    for (int n = 0; n < 40 && place; ++n) {
      place = append(*store, n, 1'000);
    }
    ASSERT_FALSE(place);
    EXPECT_EQ(place.error().code, ErrorCode::kIo);
  }
  EXPECT_FALSE(fs::exists(segment(10'000'000'001)));
}

TEST_F(SegmentStoreTest, links_folders_pipes_and_devices_are_refused_and_not_touched) {
  fs::create_directory(folder_);
  const fs::path outside = folder_ / "outside";
  write_file(outside, "of others");
  const std::vector<std::function<void(const fs::path&)>> makes = {
      [&](const fs::path& path) { fs::create_symlink(outside, path); },
      [&](const fs::path& path) { fs::create_symlink(folder_ / "nowhere", path); },
      [&](const fs::path& path) { fs::create_symlink("/dev/zero", path); },
      [&](const fs::path& path) { fs::create_directory(path); },
      [&](const fs::path& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); },
  };
  for (size_t i = 0; i < makes.size(); ++i) {
    makes[i](segment(3));
    const auto store = open(40'000);
    ASSERT_FALSE(store) << i;
    EXPECT_EQ(store.error().code, ErrorCode::kIo) << i;
    EXPECT_NE(store.error().message.find(segment(3).string()), std::string::npos) << i;
    fs::remove(segment(3));
  }
  fs::remove(folder_ / "lock");
  fs::create_symlink(folder_ / "nowhere", folder_ / "lock");
  const auto store = open(40'000);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, ErrorCode::kIo);
  EXPECT_FALSE(fs::exists(folder_ / "nowhere"));
  EXPECT_EQ(read_file(outside), "of others");
}

TEST_F(SegmentStoreTest, a_file_with_another_name_is_read_and_not_written) {
  {
    auto store = *open(1 << 20);
    ASSERT_TRUE(append(store, 1, 500));
  }
  const fs::path copy = folder_ / "copy";
  write_file(segment(1), read_file(segment(1)) + "behind the records");
  const std::string before = read_file(segment(1));
  fs::create_hard_link(segment(1), copy);
  {
    auto store = *open(1 << 20);
    ASSERT_EQ(found_.size(), 1U);
    EXPECT_TRUE(is_whole(found_[0].place, 1, 500));
    ASSERT_TRUE(append(store, 2, 500));
  }
  EXPECT_EQ(read_file(copy), before);
  EXPECT_TRUE(open(1 << 20));
  EXPECT_EQ(found_.size(), 2U);
}

TEST_F(SegmentStoreTest, a_folder_has_one_store_under_whatever_name) {
  const fs::path other_name = folder_.string() + "_link";
  fs::create_directory(folder_);
  fs::remove(other_name);
  fs::create_directory_symlink(folder_, other_name);
  {
    auto store = *open(40'000);
    ASSERT_TRUE(append(store, 1, 500));
    SegmentStore moved = std::move(store);
    for (const fs::path& path : {folder_, other_name}) {
      int n_found = 0;
      const auto second = SegmentStore::open(
          path.string(), 1, [&](const RecordHead&, const RecordPlace&) { ++n_found; });
      ASSERT_FALSE(second);
      EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
      EXPECT_EQ(n_found, 0);
    }
    EXPECT_TRUE(append(moved, 2, 500));  // nothing was dropped for a size of 1
  }
  EXPECT_TRUE(open(40'000));
  EXPECT_EQ(found_.size(), 2U);
  fs::remove(other_name);
}

TEST_F(SegmentStoreTest, a_folder_that_was_removed_and_made_again_is_the_new_stores_alone) {
  constexpr int64_t kMaxBytes = 20'000;  // some records, of a few segments
  constexpr size_t kBytes = 1000;
  auto old = open(kMaxBytes);
  ASSERT_TRUE(old);
  int n = 0;
  while (n < 10) {
    ASSERT_TRUE(append(*old, n++, kBytes));
  }
  fs::remove_all(folder_);
  auto young = open(kMaxBytes);
  ASSERT_TRUE(young) << young.error().message;
  EXPECT_TRUE(found_.empty());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(append(*young, 100 + i, kBytes));
  }
  const int64_t n_bytes = bytes_of_files();
  // More than the old one can hold: it would make files, and drop those that it once had.
  for (int i = 0; i < 100; ++i) {
    const auto place = append(*old, n++, kBytes);
    if (!place) {
      EXPECT_EQ(place.error().code, ErrorCode::kIo);
      EXPECT_NE(place.error().message.find("no longer the one that was locked"), std::string::npos);
    }
    old->take_dropped();
  }
  EXPECT_FALSE(append(*old, n, kBytes));
  EXPECT_EQ(bytes_of_files(), n_bytes);
  young = fail(ErrorCode::kUnavailable, "closed");
  ASSERT_TRUE(open(kMaxBytes));
  ASSERT_EQ(found_.size(), 10U);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(found_[static_cast<size_t>(i)].number, 100 + i);
    EXPECT_TRUE(is_whole(found_[static_cast<size_t>(i)].place, 100 + i, kBytes));
  }
}

TEST_F(SegmentStoreTest, a_folder_that_cannot_be_listed_is_refused) {
  {
    auto store = *open(40'000);
    ASSERT_TRUE(append(store, 1, 500));
  }
  in_child([&]() -> std::string {
    constexpr uid_t kNobody = 65'534;
    const bool is_root = ::geteuid() == 0;
    if (is_root && (::chown(folder_.c_str(), kNobody, kNobody) != 0 ||
                    ::chown((folder_ / "lock").c_str(), kNobody, kNobody) != 0 ||
                    ::setresuid(kNobody, kNobody, kNobody) != 0)) {
      return "skip";
    }
    ::chmod(folder_.c_str(), S_IWUSR | S_IXUSR);
    const auto store = open(40'000);
    ::chmod(folder_.c_str(), S_IRWXU);
    if (store) {
      return "an empty folder was seen";
    }
    return store.error().code == ErrorCode::kIo ? "" : store.error().message;
  });
}

}  // namespace
}  // namespace millrace
