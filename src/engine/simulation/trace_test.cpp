#include "engine/simulation/trace.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// A file that is gone with its object.
class TraceFile {
 public:
  explicit TraceFile(const std::string& content)
      : path_(fmt::format("/tmp/millrace_trace_test_{}.jsonl", ::getpid())) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~TraceFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

  // All requests, or the first error.
  Result<std::vector<TraceRequest>> read() const {
    auto reader = TraceReader::open(path_);
    if (!reader) {
      return propagate(reader);
    }
    std::vector<TraceRequest> requests;
    while (true) {
      auto next = reader->next();
      if (!next) {
        return propagate(next);
      }
      if (!*next) {
        return requests;
      }
      requests.push_back(**std::move(next));
    }
  }

 private:
  std::string path_;
};

std::string line(int64_t milliseconds, int64_t n_prompt, const std::vector<int64_t>& ids) {
  return fmt::format(
      R"({{"timestamp": {}, "input_length": {}, "output_length": 3, "hash_ids": [{}]}})",
      milliseconds,
      n_prompt,
      fmt::join(ids, ", "));
}

TEST(ParseTraceLine, reads_the_fields_and_ignores_others) {
  const auto request = parse_trace_line(
      R"({"chat": "x", "timestamp": 2500, "input_length": 1000, "output_length": 7, "hash_ids": [4, 9]})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->arrival, 2.5);
  EXPECT_EQ(request->n_prompt, 1000);
  EXPECT_EQ(request->n_answer, 7);
  EXPECT_THAT(request->hash_ids, ElementsAre(4, 9));
  EXPECT_EQ(request->key, "");
  EXPECT_EQ(parse_trace_line(
                R"({"timestamp":0,"input_length":1,"output_length":7,"hash_ids":[4],"key":"a b"})")
                ->key,
            "a b");
}

TEST(ParseTraceLine, errors_say_what_was_expected_and_what_came) {
  const struct {
    const char* line;
    const char* words;
  } cases[] = {
      {R"([1])", "expected a JSON object, got [1]"},
      {R"({})", "timestamp: expected a whole number from 0 to 1125899906842624, got nothing"},
      {R"({"timestamp": -1})",
       "timestamp: expected a whole number from 0 to 1125899906842624, got -1"},
      {R"({"timestamp": 0.5})", "got 0.5"},
      {R"({"timestamp": 0, "input_length": 0})",
       "input_length: expected a whole number from 1 to 1073741824, got 0"},
      {R"({"timestamp": 0, "input_length": 99999999999})", "got 99999999999"},
      {R"({"timestamp": 0, "input_length": 9, "output_length": "x\ny"})",
       R"(output_length: expected a whole number from 1 to 1073741824, got 'x\ny')"},
      {R"({"timestamp": 0, "input_length": 9, "output_length": 1})",
       "hash_ids: expected a list, got nothing"},
      {R"({"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [1]})",
       "hash_ids: expected 2 for input_length 513, one for every 512 tokens, got 1"},
      {R"({"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [true]})",
       "hash_ids: expected whole numbers from 0 to 9223372036854775807, got True"},
      {R"({"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [-3]})", "got -3"},
      {R"({"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [9223372036854775808]})",
       "got 9.22"},
      {R"({"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [3], "key": 5})",
       "key: expected a text that is not empty, got 5"},
      {R"({"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [3], "key": ""})",
       "got ''"},
      {R"({"timestamp": 0)", "offset 15"},
  };
  for (const auto& [text, words] : cases) {
    const auto request = parse_trace_line(text);
    ASSERT_FALSE(request) << text;
    EXPECT_THAT(request.error().message, HasSubstr(words)) << text;
    EXPECT_EQ(request.error().message.find('\n'), std::string::npos);
  }
}

TEST(TraceReader, reads_line_by_line_whatever_their_lengths_and_ends) {
  std::mt19937 random(1);
  std::string content;
  std::vector<std::vector<int64_t>> ids;
  for (int i = 0; i < 60; ++i) {
    // Some of the lines are longer than what is read at once.
    ids.emplace_back(i % 20 == 7 ? 30'000 : 1 + random() % 50);
    std::ranges::generate(ids.back(), [&] { return static_cast<int64_t>(random()); });
    content += line(i, std::ssize(ids.back()) * kTraceBlockTokens, ids.back());
    content += i == 59 ? "" : i % 3 == 0 ? "\r\n" : i % 3 == 1 ? "\n\n \n" : "\n";
  }
  const TraceFile file(content);
  const auto requests = file.read();
  ASSERT_TRUE(requests) << requests.error().message;
  ASSERT_EQ(requests->size(), ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ((*requests)[i].hash_ids, ids[i]);
    EXPECT_EQ((*requests)[i].arrival, static_cast<double>(i) / 1e3);
  }
}

TEST(TraceReader, errors_begin_with_path_and_line) {
  const TraceFile broken(line(0, 1, {1}) + "\n\n" + line(5, 1, {}) + "\n");
  const auto requests = broken.read();
  ASSERT_FALSE(requests);
  EXPECT_THAT(requests.error().message,
              StartsWith(broken.path() + ":3: hash_ids: expected 1 for input_length 1"));
  const TraceFile backwards(line(7, 1, {1}) + "\n" + line(6, 1, {1}));
  const auto unordered = backwards.read();
  ASSERT_FALSE(unordered);
  EXPECT_EQ(unordered.error().message,
            backwards.path() + ":2: timestamp: expected 7 or more, as in the line before, got 6");
  const TraceFile cut(line(0, 1, {1}) + "\n" + line(0, 1, {1}).substr(0, 30));
  const auto unfinished = cut.read();
  ASSERT_FALSE(unfinished);
  EXPECT_THAT(unfinished.error().message, StartsWith(cut.path() + ":2: "));
  EXPECT_EQ(TraceReader::open("/tmp/there/is/none").error().code, ErrorCode::kNotFound);
  EXPECT_THAT(TraceReader::open("/tmp").error().message, HasSubstr("is a folder"));
}

TEST(TraceReader, where_keys_are_needed_a_line_without_one_is_an_error) {
  std::string with_key = line(0, 1, {1});
  with_key.insert(with_key.size() - 1, R"(, "key": "a")");
  const TraceFile file(with_key + "\n" + line(1, 1, {1}) + "\n");
  EXPECT_EQ(file.read()->size(), 2U);
  auto reader = TraceReader::open(file.path(), true);
  ASSERT_TRUE(reader);
  EXPECT_EQ((**reader->next()).key, "a");
  const auto second = reader->next();
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, StartsWith(file.path() + ":2: key: expected one"));
}

TEST(TraceReader, an_empty_file_holds_no_request) {
  for (const char* content : {"", "\n", " \r\n\n"}) {
    const TraceFile file(content);
    const auto requests = file.read();
    ASSERT_TRUE(requests);
    EXPECT_TRUE(requests->empty());
  }
}

// Prompts share as many tokens as their first equal ids stand for.
TEST(PromptTokens, are_shared_as_far_as_the_ids_are) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    const int64_t tokens_per_id = std::array{512, 64, 32, 7}[static_cast<size_t>(round) % 4];
    const auto draw = [&](int64_t n_ids) {
      TraceRequest request{.n_answer = 1};
      request.n_prompt = n_ids * kTraceBlockTokens - static_cast<int64_t>(random() % 512);
      for (int64_t i = 0; i < n_ids; ++i) {
        request.hash_ids.push_back(static_cast<int64_t>(random() % 3));
      }
      return with_tokens_per_id(request, tokens_per_id);
    };
    const TraceRequest a = draw(1 + static_cast<int64_t>(random() % 6));
    const TraceRequest b = draw(1 + static_cast<int64_t>(random() % 6));
    const std::vector<TokenId> of_a = prompt_tokens(a);
    const std::vector<TokenId> of_b = prompt_tokens(b);
    ASSERT_EQ(std::ssize(of_a), a.n_prompt);
    EXPECT_EQ(std::ssize(a.hash_ids), (a.n_prompt + tokens_per_id - 1) / tokens_per_id);
    const int64_t n_ids = std::ranges::mismatch(a.hash_ids, b.hash_ids).in1 - a.hash_ids.begin();
    const int64_t n_tokens = std::ranges::mismatch(of_a, of_b).in1 - of_a.begin();
    EXPECT_EQ(n_tokens, std::min({n_ids * tokens_per_id, a.n_prompt, b.n_prompt}));
    EXPECT_TRUE(std::ranges::all_of(of_a, [](TokenId token) { return token >= 0; }));
  }
}

TEST(PromptTokens, hold_every_bit_of_an_id) {
  for (int bit = 0; bit < 63; ++bit) {
    TraceRequest request{.n_prompt = 3, .n_answer = 1, .hash_ids = {int64_t{1} << bit}};
    const std::vector<TokenId> tokens = prompt_tokens(request);
    EXPECT_EQ(tokens[0] + int64_t{tokens[1]} + tokens[2], int64_t{1} << bit % 31);
  }
}

}  // namespace
}  // namespace millrace
