#include "kv/record_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace millrace {
namespace {

BlockKey key_of(unsigned n) {
  BlockKey key{};
  key[3] = std::byte(n);
  return key;
}

// Against a plain map of everything, under random changes.
TEST(RecordTable, has_what_was_added_last_and_not_forgotten) {
  constexpr unsigned kKeys = 40;
  std::mt19937 random(11);
  RecordTable table;
  std::map<unsigned, std::pair<int64_t, int64_t>> expected;  // segment and offset by key
  std::map<int64_t, SegmentPtr> files;
  for (int64_t change = 0; change < 4'000; ++change) {
    const unsigned key = random() % kKeys;
    const int64_t segment = change / 20 + random() % 4;
    if (random() % 20 == 0) {
      table.forget(segment);
      std::erase_if(expected, [&](const auto& entry) { return entry.second.first == segment; });
      if (const auto file = files.find(segment); file != files.end()) {
        EXPECT_EQ(file->second.use_count(), 1) << "the table still has it";
        files.erase(file);
      }
    } else if (random() % 8 == 0 && expected.contains(key)) {
      const auto [number, offset] = expected[key];
      table.remove(key_of(key), number, offset + 1);
      table.remove(key_of(key), number + 1, offset);
      EXPECT_TRUE(table.contains(key_of(key)));
      table.remove(key_of(key), number, offset);
      expected.erase(key);
    } else {
      SegmentPtr& file = files[segment];
      if (file == nullptr) {
        file =
            std::make_shared<const SegmentFile>(::open("/dev/null", O_RDONLY | O_CLOEXEC), segment);
      }
      table.add(key_of(key), {.segment = file, .offset = change});
      expected[key] = {segment, change};
    }
    ASSERT_EQ(table.size(), std::ssize(expected));
    for (unsigned each = 0; each < kKeys; ++each) {
      const auto place = table.find(key_of(each));
      ASSERT_EQ(place.has_value(), expected.contains(each));
      ASSERT_EQ(place.has_value(), table.contains(key_of(each)));
      if (place) {
        ASSERT_EQ(place->segment, files.at(expected[each].first));
        ASSERT_EQ(place->offset, expected[each].second);
      }
    }
  }
}

}  // namespace
}  // namespace millrace
