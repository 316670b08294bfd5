// What the disk can do to a block: every fault is a miss or a refusal to start.

#include "kv/disk_tier.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/log.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTokens = 4;        // of a block here
constexpr int64_t kBlockBytes = 700;  // 600 of the model, 100 of its draft model

class DiskTierTest : public testing::Test {
 protected:
  DiskTierTest()
      : folder_(fs::temp_directory_path() /
                ("millrace_disk_tier_test_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    set_log_level(LogLevel::kOff);  // damage is reported again and again
  }
  ~DiskTierTest() override {
    set_log_level(LogLevel::kInfo);
    fs::remove_all(folder_);
  }

  // A tier and everything that a test asks of it.
  struct Rig {
    Rig(const fs::path& folder, int64_t max_bytes)
        : tier(*DiskTier::open(
              {.folder = folder.string(), .max_bytes = max_bytes, .block_bytes = kBlockBytes},
              metrics)) {}

    // Chain number n, of so many blocks.
    BlockChain chain(int n, int n_blocks) {
      BlockChain result;
      result.parent[5] = std::byte{17};
      for (int i = 0; i < n_blocks * kTokens; ++i) {
        result.tokens.push_back(n * 1'000 + i);
      }
      extend_block_keys(sha, result.parent, result.tokens, kTokens, result.keys);
      return result;
    }
    static std::vector<std::byte> content(const BlockName& name) {
      std::vector<std::byte> bytes(kBlockBytes);
      for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = std::byte(static_cast<size_t>(name.tokens[0]) * 31 + i * i);
      }
      return bytes;
    }
    static BlockBytes parts(std::vector<std::byte>& bytes) {
      return {.target = std::span(bytes).first(600), .draft = std::span(bytes).subspan(600)};
    }

    void put(const BlockChain& blocks) {
      for (size_t i = 0; i < blocks.keys.size(); ++i) {
        std::vector<std::byte> bytes = content(blocks.name(i));
        while (!tier->put(blocks.name(i), parts(bytes))) {
          settle();
        }
        EXPECT_TRUE(tier->keeps(blocks.keys[i]));
      }
      settle();
    }
    // Waits until everything has been written.
    void settle() {
      std::vector<TierEvent> events;
      while (tier->n_unwritten() > 0) {
        std::this_thread::yield();
      }
      tier->poll(events);
    }
    // How many blocks of the chain come back; each as it was put.
    int64_t get(const BlockChain& blocks) {
      std::vector<std::vector<std::byte>> memory(blocks.keys.size(),
                                                 std::vector<std::byte>(kBlockBytes));
      std::vector<BlockBytes> places;
      for (std::vector<std::byte>& bytes : memory) {
        places.push_back(parts(bytes));
      }
      tier->get(++transfer, blocks, std::move(places));
      std::vector<TierEvent> events;
      while (events.empty() || !events.back().is_over) {
        std::this_thread::yield();
        tier->poll(events);
      }
      const int64_t n_blocks = events.back().n_blocks;
      EXPECT_EQ(std::ssize(events), n_blocks + 1);
      for (int64_t i = 0; i < n_blocks; ++i) {
        const auto at = static_cast<size_t>(i);
        EXPECT_EQ(events[at].n_blocks, i + 1);
        EXPECT_EQ(memory[at], content(blocks.name(at))) << "block " << i;
      }
      return n_blocks;
    }
    double writes(const char* outcome) {
      return metrics
          .counter("millrace_kv_disk_writes_total",
                   "KV blocks offered to the disk, by what became of them",
                   {{"outcome", outcome}})
          .value();
    }
    double reads(const char* outcome) {
      return metrics
          .counter("millrace_kv_disk_reads_total",
                   "KV blocks read from disk, by what was found",
                   {{"outcome", outcome}})
          .value();
    }

    Metrics metrics;
    Sha256 sha;
    std::unique_ptr<DiskTier> tier;
    TransferId transfer = 0;
  };

  // What is logged while a tier opens.
  std::string log_of_opening() {
    set_log_level(LogLevel::kInfo);
    testing::internal::CaptureStderr();
    const auto tier = try_open(folder_);
    EXPECT_TRUE(tier);
    set_log_level(LogLevel::kOff);
    return testing::internal::GetCapturedStderr();
  }
  Result<std::unique_ptr<DiskTier>> try_open(const fs::path& folder, int64_t max_bytes = 1 << 20) {
    return DiskTier::open(
        {.folder = folder.string(), .max_bytes = max_bytes, .block_bytes = kBlockBytes}, metrics_);
  }
  std::vector<fs::path> segments() const {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() == ".kv") {
        paths.push_back(entry.path());
      }
    }
    std::ranges::sort(paths);
    return paths;
  }
  static std::string read_file(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write_file(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  const fs::path folder_;
  Metrics metrics_;
};

constexpr int64_t kLarge = 1 << 20;

TEST_F(DiskTierTest, blocks_survive_a_restart) {
  {
    Rig rig(folder_, kLarge);
    rig.put(rig.chain(1, 5));
    EXPECT_EQ(rig.get(rig.chain(1, 5)), 5);
  }
  Rig rig(folder_, kLarge);
  EXPECT_EQ(rig.tier->n_records(), 5);
  const BlockChain blocks = rig.chain(1, 7);
  EXPECT_EQ(rig.tier->n_stored(blocks.keys), 5);
  EXPECT_EQ(rig.tier->n_stored(std::span(blocks.keys).subspan(3)), 2);
  EXPECT_EQ(rig.get(rig.chain(1, 5)), 5);
  EXPECT_EQ(rig.get(rig.chain(2, 3)), 0);
  EXPECT_EQ(rig.reads("loaded"), 5);
  EXPECT_EQ(rig.reads("corrupt"), 0);
  rig.put(rig.chain(2, 3));  // appended to the same file
  EXPECT_EQ(segments().size(), 1U);
  EXPECT_EQ(rig.get(rig.chain(1, 5)) + rig.get(rig.chain(2, 3)), 8);
  EXPECT_EQ(rig.writes("written"), 3);
}

TEST_F(DiskTierTest, the_log_says_what_was_found) {
  EXPECT_NE(log_of_opening().find(": 0 blocks of 700 B found, in 0 B of files"), std::string::npos);
  {
    Rig rig(folder_, kLarge);
    rig.put(rig.chain(1, 5));
  }
  const std::string log = log_of_opening();
  EXPECT_NE(log.find(": 5 blocks of 700 B found, in "), std::string::npos) << log;
  EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
}

TEST_F(DiskTierTest, what_is_still_being_written_is_kept_when_the_tier_ends) {
  {
    Rig rig(folder_, kLarge);
    const BlockChain blocks = rig.chain(1, 8);
    for (size_t i = 0; i < blocks.keys.size(); ++i) {
      std::vector<std::byte> bytes = Rig::content(blocks.name(i));
      EXPECT_TRUE(rig.tier->put(blocks.name(i), Rig::parts(bytes)));
    }
  }
  Rig rig(folder_, kLarge);
  EXPECT_EQ(rig.get(rig.chain(1, 8)), 8);
}

TEST_F(DiskTierTest, a_full_stage_refuses_and_is_counted) {
  Rig rig(folder_, kLarge);
  const BlockChain blocks = rig.chain(1, 2'000);
  int64_t n_refused = 0;
  for (size_t i = 0; i < blocks.keys.size(); ++i) {  // never polled, so no place becomes free
    std::vector<std::byte> bytes = Rig::content(blocks.name(i));
    n_refused += rig.tier->put(blocks.name(i), Rig::parts(bytes)) ? 0 : 1;
  }
  EXPECT_EQ(n_refused, 2'000 - DiskTier::stage_bytes(kBlockBytes) / kBlockBytes);
  EXPECT_EQ(rig.writes("dropped"), n_refused);
}

TEST_F(DiskTierTest, oldest_segments_go_when_the_size_is_reached) {
  constexpr int64_t kSmall = 40'000;
  {
    Rig rig(folder_, kSmall);
    for (int n = 1; n <= 100; ++n) {
      rig.put(rig.chain(n, 2));
      int64_t bytes = 0;
      for (const fs::path& path : segments()) {
        bytes += static_cast<int64_t>(fs::file_size(path));
      }
      ASSERT_LE(bytes, kSmall);
    }
    EXPECT_EQ(rig.get(rig.chain(100, 2)), 2);
    EXPECT_EQ(rig.get(rig.chain(1, 2)), 0);
    EXPECT_GT(rig.tier->n_records(), 30);  // 40,000 bytes hold 46 records of 868
    EXPECT_LT(rig.tier->n_records(), 47);
    EXPECT_FALSE(rig.tier->keeps(rig.chain(1, 1).keys[0]));
  }
  Rig smaller(folder_, kSmall / 4);
  EXPECT_LT(smaller.tier->n_records(), 12);
  EXPECT_EQ(smaller.get(smaller.chain(100, 2)), 2);
}

TEST_F(DiskTierTest, any_flipped_bit_is_a_miss_and_never_another_content) {
  {
    Rig rig(folder_, kLarge);
    rig.put(rig.chain(1, 3));
  }
  const fs::path path = segments().at(0);
  const std::string whole = read_file(path);
  const size_t record = whole.size() / 3;
  for (size_t at = 0; at < whole.size(); at += at % record < 200 ? 5 : 41) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    write_file(path, damaged);
    Rig rig(folder_, kLarge);
    EXPECT_EQ(rig.get(rig.chain(1, 3)), static_cast<int64_t>(at / record)) << "byte " << at;
    rig.put(rig.chain(2, 1));  // and the tier goes on
    EXPECT_EQ(rig.get(rig.chain(2, 1)), 1);
    for (const fs::path& other : segments()) {
      fs::remove(other);
    }
  }
}

TEST_F(DiskTierTest, a_bit_that_flips_while_the_tier_runs_is_a_miss_until_it_is_written_again) {
  Rig rig(folder_, kLarge);
  rig.put(rig.chain(1, 3));
  std::string bytes = read_file(segments().at(0));
  bytes[bytes.size() / 2] ^= 1;
  {
    std::fstream file(segments().at(0), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(bytes.size() / 2));
    file.put(bytes[bytes.size() / 2]);
  }
  const BlockChain blocks = rig.chain(1, 3);
  EXPECT_EQ(rig.get(rig.chain(1, 3)), 1);
  EXPECT_EQ(rig.reads("corrupt"), 1);
  EXPECT_EQ(rig.tier->n_stored(blocks.keys), 1);
  EXPECT_FALSE(rig.tier->keeps(blocks.keys[1]));
  std::vector<std::byte> again = Rig::content(blocks.name(1));
  EXPECT_TRUE(rig.tier->put(blocks.name(1), Rig::parts(again)));
  rig.settle();
  EXPECT_EQ(rig.get(rig.chain(1, 3)), 3);
}

TEST_F(DiskTierTest, a_torn_write_costs_what_is_behind_it) {
  {
    Rig rig(folder_, kLarge);
    rig.put(rig.chain(1, 3));
  }
  const fs::path path = segments().at(0);
  const std::string whole = read_file(path);
  const size_t record = whole.size() / 3;
  for (const size_t n : {size_t{0}, size_t{1}, record - 1, record, record + 50, whole.size() - 1}) {
    write_file(path, whole.substr(0, n));
    Rig rig(folder_, kLarge);
    EXPECT_EQ(rig.get(rig.chain(1, 3)), static_cast<int64_t>(n / record)) << n << " bytes";
    rig.put(rig.chain(1, 3));
    EXPECT_EQ(rig.get(rig.chain(1, 3)), 3) << n << " bytes";
    for (const fs::path& other : segments()) {
      fs::remove(other);
    }
  }
}

TEST_F(DiskTierTest, a_file_cut_while_the_tier_runs_is_a_miss) {
  Rig rig(folder_, kLarge);
  rig.put(rig.chain(1, 3));
  fs::resize_file(segments().at(0), 1'000);
  EXPECT_EQ(rig.get(rig.chain(1, 3)), 1);
  EXPECT_EQ(rig.reads("corrupt"), 1);
}

TEST_F(DiskTierTest, a_record_under_another_name_is_a_miss) {
  {
    Rig rig(folder_, kLarge);
    rig.put(rig.chain(1, 3));
  }
  Rig rig(folder_, kLarge);
  BlockChain blocks = rig.chain(1, 3);
  blocks.tokens[5] += 1;  // the key of block 1, but not its tokens
  EXPECT_EQ(rig.get(blocks), 1);
  EXPECT_EQ(rig.reads("corrupt"), 1);
}

TEST_F(DiskTierTest, another_version_is_a_miss) {
  {
    Rig rig(folder_, kLarge);
    rig.put(rig.chain(1, 2));
  }
  std::string bytes = read_file(segments().at(0));
  bytes[4] = 2;
  write_file(segments().at(0), bytes);
  Rig rig(folder_, kLarge);
  EXPECT_EQ(rig.tier->n_records(), 0);
  EXPECT_EQ(rig.get(rig.chain(1, 2)), 0);
}

TEST_F(DiskTierTest, blocks_of_another_size_are_a_miss) {
  {
    Rig rig(folder_, kLarge);
    rig.put(rig.chain(1, 2));
  }
  const auto tier = *DiskTier::open(
      {.folder = folder_.string(), .max_bytes = kLarge, .block_bytes = 600}, metrics_);
  Sha256 sha;
  BlockChain blocks;
  blocks.parent[5] = std::byte{17};
  blocks.tokens = {1'000, 1'001, 1'002, 1'003};
  extend_block_keys(sha, blocks.parent, blocks.tokens, kTokens, blocks.keys);
  EXPECT_EQ(tier->n_records(), 0);
  EXPECT_EQ(tier->n_stored(blocks.keys), 0);
  std::vector<std::byte> memory(600);
  tier->get(1, blocks, {{.target = memory}});
  std::vector<TierEvent> events;
  while (events.empty()) {
    std::this_thread::yield();
    tier->poll(events);
  }
  EXPECT_TRUE(events[0].is_over);
  EXPECT_EQ(events[0].n_blocks, 0);
}

// A dropped file is closed when nobody can look it up any more, so that its space is free.
TEST_F(DiskTierTest, files_that_were_dropped_are_closed) {
  Rig rig(folder_, 40'000);
  const auto n_deleted = [] {
    int n = 0;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      n += fs::read_symlink(entry, gone).string().ends_with(" (deleted)") ? 1 : 0;
    }
    return n;
  };
  const int n_before = n_deleted();
  for (int n = 1; n <= 100; ++n) {
    rig.put(rig.chain(n, 2));
    rig.get(rig.chain(n, 2));
  }
  EXPECT_EQ(rig.get(rig.chain(1, 2)), 0);
  while (n_deleted() > n_before) {
    rig.settle();
    std::this_thread::yield();
  }
}

TEST_F(DiskTierTest, there_is_a_call_for_whatever_can_be_polled) {
  std::atomic<int> n_calls{0};
  Metrics metrics;
  const auto tier = *DiskTier::open({.folder = folder_.string(),
                                     .max_bytes = kLarge,
                                     .block_bytes = kBlockBytes,
                                     .on_news = [&] { n_calls.fetch_add(1); }},
                                    metrics);
  Sha256 sha;
  BlockChain blocks;
  blocks.tokens = {1, 2, 3, 4};
  extend_block_keys(sha, blocks.parent, blocks.tokens, kTokens, blocks.keys);
  std::vector<std::byte> bytes(kBlockBytes);
  std::vector<TierEvent> events;
  tier->put(blocks.name(0), {.target = bytes});
  while (n_calls.load() == 0) {
    std::this_thread::yield();
  }
  tier->poll(events);
  EXPECT_EQ(tier->n_records(), 1);
  tier->get(1, blocks, {{.target = bytes}});
  while (n_calls.load() < 3) {  // the block, and the end
    std::this_thread::yield();
  }
  tier->poll(events);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_TRUE(events[1].is_over);
}

// A limit on the size of files stands for a full disk: the write fails in its middle.
TEST_F(DiskTierTest, a_full_disk_loses_what_does_not_fit_and_nothing_else) {
  {
    Rig rig(folder_, kLarge);
    rig.put(rig.chain(1, 2));
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit tight{.rlim_cur = 3 * 868 - 300, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tight);
    rig.put(rig.chain(2, 2));
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_EQ(rig.writes("failed"), 2);
    EXPECT_EQ(rig.tier->n_failed(), 2);
    EXPECT_EQ(rig.get(rig.chain(2, 2)), 0);
    EXPECT_FALSE(rig.tier->keeps(rig.chain(2, 1).keys[0]));
    EXPECT_EQ(rig.get(rig.chain(1, 2)), 2);
  }
  EXPECT_EQ(fs::file_size(segments().at(0)), 2U * 868);
  Rig rig(folder_, kLarge);  // a pause ends with the tier
  rig.put(rig.chain(2, 2));
  EXPECT_EQ(rig.get(rig.chain(1, 2)) + rig.get(rig.chain(2, 2)), 4);
}

TEST_F(DiskTierTest, a_second_tier_on_the_folder_is_refused) {
  const Rig rig(folder_, kLarge);
  const auto second = try_open(folder_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(second.error().message.find("--kv-disk " + folder_.string()), std::string::npos);
  EXPECT_NE(second.error().message.find("in use by another server"), std::string::npos);
}

TEST_F(DiskTierTest, a_folder_that_cannot_be_used_is_refused) {
  write_file(folder_, "a file");
  for (const fs::path& path : {folder_, folder_ / "below", fs::path("/proc/kv")}) {
    const auto tier = try_open(path);
    ASSERT_FALSE(tier) << path;
    EXPECT_EQ(tier.error().code, ErrorCode::kIo);
    EXPECT_NE(tier.error().message.find("--kv-disk " + path.string()), std::string::npos);
  }
}

TEST_F(DiskTierTest, a_size_that_holds_no_two_blocks_is_refused) {
  const auto tier = try_open(folder_, 2'000);
  ASSERT_FALSE(tier);
  EXPECT_EQ(tier.error().code, ErrorCode::kInvalidArgument);
}

// One that was long done when it was cancelled came whole; not each of many.
TEST_F(DiskTierTest, a_cancelled_transfer_ends_early_and_is_over_all_the_same) {
  constexpr size_t kBlocks = 1'000;
  Rig rig(folder_, 4 * kLarge);
  const BlockChain blocks = rig.chain(1, kBlocks);
  rig.put(blocks);
  std::vector<std::byte> memory(kBlocks * kBlockBytes);
  std::vector<BlockBytes> places;
  for (size_t i = 0; i < kBlocks; ++i) {
    places.push_back({.target = std::span(memory).subspan(i * kBlockBytes, kBlockBytes)});
  }
  int64_t fewest = kBlocks;
  for (TransferId transfer = 1; transfer <= 100 && fewest == kBlocks; ++transfer) {
    rig.tier->get(transfer, blocks, places);
    rig.tier->cancel(transfer);
    rig.tier->cancel(0);  // nobody's
    std::vector<TierEvent> events;
    while (events.empty() || !events.back().is_over) {
      std::this_thread::yield();
      rig.tier->poll(events);
    }
    EXPECT_EQ(events.back().transfer, transfer);
    fewest = std::min(fewest, events.back().n_blocks);
  }
  EXPECT_LT(fewest, static_cast<int64_t>(kBlocks));
}

TEST_F(DiskTierTest, files_are_for_their_owner_alone) {
  Rig rig(folder_, kLarge);
  rig.put(rig.chain(1, 1));
  EXPECT_EQ(fs::status(segments().at(0)).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

}  // namespace
}  // namespace millrace
