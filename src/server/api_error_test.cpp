#include "server/api_error.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>

namespace millrace {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(std::string(MILLRACE_SOURCE_DIR) + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ApiError, the_table_of_codes_in_the_documentation_is_that_of_the_code) {
  std::multiset<std::string> documented;
  std::istringstream page(read("/docs/api.md"));
  for (std::string line; std::getline(page, line);) {
    // | 400 | `code` | meaning | remedy |
    const size_t code_end = line.find("` |", 9);
    const bool is_row = line.size() > 9 && line.starts_with("| ") && line[2] >= '0' &&
                        line[2] <= '9' && line.substr(5, 4) == " | `";
    if (is_row && code_end != std::string::npos) {
      documented.insert(line.substr(2, 3) + " " + line.substr(9, code_end - 9));
    }
  }
  std::multiset<std::string> known;
  for (const ApiCodeRow& code : api_codes()) {
    known.insert(std::to_string(code.status) + " " + code.name);
  }
  EXPECT_EQ(documented, known);
}

TEST(ApiError, every_status_that_the_transport_refuses_with_has_a_code) {
  const std::string source =
      read("/src/server/http_connection.cpp") + read("/src/server/http_message.cpp");
  const std::regex refusal(R"(\brefuse\w*\(\s*(?:\w+,\s*)?(\d{3}),)");  // one not computed
  int n_found = 0;
  for (std::sregex_iterator found(source.begin(), source.end(), refusal), end; found != end;
       ++found) {
    const int status = std::atoi((*found)[1].str().c_str());
    EXPECT_EQ((ApiError{code_of_refusal(status), ""}.status()), status);
    ++n_found;
  }
  EXPECT_GT(n_found, 5);
}

TEST(ApiError, every_status_has_a_name) {
  for (const ApiCodeRow& code : api_codes()) {
    EXPECT_STRNE(http_reason(code.status), http_reason(999)) << code.status;
  }
}

TEST(ApiError, errors_have_all_four_members_and_tell_when_to_try_again) {
  EXPECT_EQ(error_json({ApiCode::kInvalidValue, "a \"b\"", "n"}),
            R"({"error":{"message":"a \"b\"","type":"invalid_request_error","param":"n",)"
            R"("code":"invalid_value"}})");
  const HttpResponse busy = error_response({ApiCode::kOverloaded, "busy"});
  EXPECT_EQ(busy.status, 503);
  EXPECT_EQ(busy.headers.at(0).name, "Retry-After");
}

}  // namespace
}  // namespace millrace
