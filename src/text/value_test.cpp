#include "text/value.h"

#include "text/strict_json.h"

#include <gtest/gtest.h>

#include <limits>

namespace millrace {
namespace {

std::string json(const Value& value, const JsonStyle& style = {}) {
  Result<MarkedText> text = dump_json(value, style);
  return text ? text->text() : "error: " + text.error().message;
}

TEST(Value, doubles_print_as_python_prints_them) {
  const std::pair<double, const char*> cases[] = {
      {1.0, "1.0"},
      {0.1, "0.1"},
      {-0.0, "-0.0"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {1e20, "1e+20"},
      {1.5e-7, "1.5e-07"},
      {0.0001, "0.0001"},
      {0.00001, "1e-05"},
      {1.0 / 3, "0.3333333333333333"},
      {5e-324, "5e-324"},
      {1.7976931348623157e308, "1.7976931348623157e+308"}};
  for (const auto& [value, text] : cases) EXPECT_EQ(format_double(value), text);
  EXPECT_EQ(format_double(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(json(Value(std::numeric_limits<double>::quiet_NaN())), "NaN");
}

TEST(Value, json_keeps_key_order_and_the_last_of_repeated_keys) {
  const Result<Value> value = parse_json(R"({"b": 1, "a": [null, true, 2.5e3], "b": "x"})");
  ASSERT_TRUE(value);
  EXPECT_EQ(json(*value), R"({"b": "x", "a": [null, true, 2500.0]})");
}

// A client that knows the hash could otherwise make every look-up in its object a scan.
TEST(Value, keys_chosen_to_collide_in_a_known_hash_are_spread) {
  constexpr uint64_t kMask = (1 << 12) - 1;
  std::vector<bool> is_taken(kMask + 1);
  int n_keys = 0;
  int n_places = 0;
  for (int i = 0; n_keys < 100; ++i) {
    const std::string key = "k" + std::to_string(i);
    if ((std::hash<std::string>{}(key)&kMask) == 0) {
      ++n_keys;
      const size_t place = hash_value(Value(key)) & kMask;
      n_places += !is_taken[place];
      is_taken[place] = true;
    }
  }
  EXPECT_GT(n_places, 50);
}

TEST(Value, strict_json_packs_ids_only_where_they_are_expected) {
  const std::string_view fields[] = {"prompt"};
  const auto parse = [&](std::string_view text) {
    Result<Value> value = parse_strict_json(text, {.id_fields = fields});
    EXPECT_TRUE(value) << text;
    return value ? *value : Value();
  };
  const auto ids = [&](std::string_view text) {
    const Value document = parse(text);
    const auto* found = token_ids_of(*document.find("prompt"));
    return found == nullptr ? std::vector<TokenId>{} : *found;
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(ids(R"({"prompt":[1,2 , 2147483647]})"), (Ids{1, 2, 2147483647}));
  EXPECT_EQ(ids(R"({"prompt":[ 0 ]})"), Ids{0});
  for (const char* other :
       {"[]", "[1,-2]", "[1,2.5]", "[1,\"a\"]", "[2147483648]", "[1e3]", "{}"}) {
    EXPECT_EQ(ids(std::string(R"({"prompt":)") + other + "}"), Ids{}) << other;
  }
  const Value nested = parse(R"({"prompt":[[1],[2,3],["a"]],"tools":[1,2],"a":{"prompt":[1]}})");
  ASSERT_EQ(nested.find("prompt")->items().size(), 3u);
  EXPECT_EQ(*token_ids_of(nested.find("prompt")->items()[1]), (Ids{2, 3}));
  EXPECT_TRUE(nested.find("prompt")->items()[2].is_list());
  EXPECT_TRUE(nested.find("tools")->is_list());
  EXPECT_TRUE(nested.find("a")->find("prompt")->is_list());
  for (const char* bad : {"[1,]", "[,1]", "[1 2]", "[01]", "[1,2", "[", "[1,2,"}) {
    EXPECT_FALSE(parse_strict_json(std::string(R"({"prompt":)") + bad, {.id_fields = fields}))
        << bad;
  }
}

TEST(Value, strict_json_bounds_the_number_of_values) {
  EXPECT_TRUE(parse_strict_json("[1,2,3]", {.max_values = 4}));
  const auto refused = parse_strict_json("[1,2,{}]", {.max_values = 3});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  const std::string_view fields[] = {"prompt"};
  EXPECT_TRUE(parse_strict_json(R"({"prompt":[1,2,3]})", {.id_fields = fields, .max_values = 1}));
}

TEST(Value, strict_json_marks_strings_as_input_and_stores_recurring_ones_once) {
  const auto value = parse_strict_json(R"([{"role":"user"},{"role":"user"},""])");
  ASSERT_TRUE(value);
  const Value& role = *value->items()[0].find("role");
  EXPECT_EQ(role.identity(), value->items()[1].find("role")->identity());
  EXPECT_TRUE(role.as_text().is_input_at(0));
  EXPECT_EQ(role.as_input().identity(), role.identity());
  const Value own = Value::list({"a"});
  EXPECT_NE(own.items()[0].as_input().identity(), own.items()[0].identity());
  EXPECT_TRUE(own.items()[0].as_input().as_text().has_input());
  EXPECT_FALSE(Value::markup(MarkedText("a", true)).as_input().is_markup());
}

TEST(Value, strict_json_has_no_numbers_that_are_none) {
  for (const char* text : {"NaN", "[Infinity]", "{\"a\":-Infinity}", "1e999", "-1e999", "[1,-]"}) {
    const Result<Value> value = parse_strict_json(text);
    ASSERT_FALSE(value) << text;
    const bool is_json = std::string_view(text).find("1e999") != std::string_view::npos;
    EXPECT_EQ(value.error().code, is_json ? ErrorCode::kUnsupported : ErrorCode::kInvalidArgument);
    EXPECT_NE(value.error().message.find("offset"), std::string::npos);
  }
  EXPECT_TRUE(parse_json("[NaN, Infinity, -Infinity, 1e999]"));  // as Python reads it
  const Result<Value> value =
      parse_strict_json(R"({"a": [1e308, 1e-999, -0.5, 18446744073709551616]})");
  ASSERT_TRUE(value);
  EXPECT_EQ(json(*value), R"({"a": [1e+308, 0.0, -0.5, 1.8446744073709552e+19]})");
}

TEST(Value, json_escapes_are_read_and_written) {
  const Result<Value> value = parse_json(R"("\u00e9\ud83d\ude00\ud800x\n\/\"")");
  ASSERT_TRUE(value);
  EXPECT_EQ(value->as_string(), "é😀\xEF\xBF\xBDx\n/\"");
  JsonStyle ascii;
  ascii.ensure_ascii = true;
  EXPECT_EQ(json(Value("é😀\x7f"), ascii), R"("\u00e9\ud83d\ude00\u007f")");
}

TEST(Value, broken_json_is_refused_with_its_offset) {
  for (const char* text : {"",
                           "{",
                           "[1,",
                           "{\"a\"}",
                           "{\"a\":1,}",
                           "[1,]",
                           "\"a",
                           "\"\\x\"",
                           "01",
                           "1 2",
                           "tru",
                           "{'a': 1}",
                           "\"\x01\"",
                           "\"\xff\"",
                           "-",
                           "1e"}) {
    const Result<Value> value = parse_json(text);
    ASSERT_FALSE(value) << text;
    EXPECT_NE(value.error().message.find("offset"), std::string::npos) << text;
  }
}

TEST(Value, json_of_any_depth_is_refused_instead_of_overflowing_the_stack) {
  const std::string deep = std::string(100000, '[');
  EXPECT_EQ(parse_json(deep).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(parse_json(std::string(100, '[')).error().code, ErrorCode::kInvalidArgument);
  const std::string objects = [] {
    std::string text;
    for (int i = 0; i < 5000; ++i) text += "{\"a\":";
    return text;
  }();
  EXPECT_FALSE(parse_json(objects));
  EXPECT_TRUE(parse_json(std::string(100, '[') + std::string(100, ']')));
}

TEST(Value, integers_beyond_64_bits_become_doubles) {
  EXPECT_EQ(parse_json("9223372036854775807")->as_int(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(parse_json("9223372036854775808")->as_double(), 9223372036854775808.0);
}

TEST(Value, writing_to_a_shared_container_leaves_the_other_handle_alone) {
  Value a = Value::list({1, 2});
  Value b = a;
  b.append(3);
  EXPECT_EQ(json(a), "[1, 2]");
  EXPECT_EQ(json(b), "[1, 2, 3]");
  Value c = Value::dict({{"k", 1}});
  Value d = c;
  d.mutable_dict().set(Value("k"), Value(2));
  EXPECT_EQ(json(c), R"({"k": 1})");
  EXPECT_EQ(json(d), R"({"k": 2})");
}

TEST(Value, a_list_appended_to_itself_holds_its_former_content) {
  Value list = Value::list({1});
  list.append(list);
  EXPECT_EQ(json(list), "[1, [1]]");
  EXPECT_EQ(list.depth(), 2);
}

TEST(Value, dicts_find_equal_keys_across_number_types_also_when_large) {
  Dict dict;
  for (int i = 0; i < 1000; ++i) dict.set(Value(i), Value(i * i));
  EXPECT_EQ(dict.find(Value(31.0))->as_int(), 961);
  EXPECT_EQ(dict.find(Value(true))->as_int(), 1);
  EXPECT_EQ(dict.find(Value(1000)), nullptr);
  EXPECT_TRUE(dict.erase(Value(31)));
  EXPECT_EQ(dict.find(Value(31)), nullptr);
  EXPECT_EQ(dict.find(Value(999))->as_int(), 998001);
  dict.set(Value(999), Value("new"));
  EXPECT_EQ(dict.size(), 999u);
  EXPECT_EQ(dict.find(Value(999))->as_string(), "new");
}

TEST(Value, as_input_marks_keys_and_values_and_freezes) {
  const Value value = Value::dict({{"k", Value::list({"v", 1})}}).as_input();
  EXPECT_TRUE(value.is_frozen());
  EXPECT_TRUE(value.find("k")->is_frozen());
  EXPECT_TRUE(value.as_dict().begin()->first.as_text().has_input());
  EXPECT_TRUE(value.find("k")->items()[0].as_text().has_input());
}

TEST(MarkedText, slices_and_appends_keep_the_marks) {
  MarkedText text("ab");
  text.append("CD", true);
  text.append("ef", false);
  text.append("GH", true);
  const MarkedText middle = text.slice(1, 7);
  const std::vector<TextPiece> expected = {{"b", false}, {"CD", true}, {"ef", false}, {"G", true}};
  EXPECT_EQ(middle.pieces(), expected);
  MarkedText joined = text.slice(2, 4);
  joined.append(text, 6, 8);
  EXPECT_EQ(joined.pieces(), (std::vector<TextPiece>{{"CDGH", true}}));
  joined.append(joined);
  EXPECT_EQ(joined.text(), "CDGHCDGH");
}

}  // namespace
}  // namespace millrace
