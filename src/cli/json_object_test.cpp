#include "cli/json_object.h"

#include <gtest/gtest.h>

#include <limits>

namespace millrace {
namespace {

TEST(JsonObject, holds_every_kind_of_value_in_order) {
  JsonObject inner;
  inner.add("text", "a\"b").add("n", int64_t{-3});
  JsonObject object;
  object.add("inner", inner)
      .add("flag", true)
      .add("rate", 1234.56789)
      .add("single", 0.1F)
      .add("none", std::numeric_limits<double>::infinity())
      .add("big", std::numeric_limits<uint64_t>::max())
      .add("ids", std::vector<int>{1, 2})
      .add("flags", std::vector<bool>{true, false})
      .add("names", std::vector<std::string_view>{"x", "y\n"})
      .add("objects", std::vector<JsonObject>{inner, JsonObject()});
  EXPECT_EQ(object.text(),
            R"({"inner":{"text":"a\"b","n":-3},"flag":true,"rate":1234.57,"single":0.1,)"
            R"("none":null,"big":18446744073709551615,"ids":[1,2],"flags":[true,false],)"
            R"("names":["x","y\n"],"objects":[{"text":"a\"b","n":-3},{}]})");
}

}  // namespace
}  // namespace millrace
