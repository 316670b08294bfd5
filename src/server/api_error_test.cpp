#include "server/api_error.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

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
  const std::string page = read("/docs/api.md");
  const std::regex row(R"(\n\| (\d{3}) \| `(\w+)` \|[^|\n]+\|[^|\n]+\|)");
  for (std::sregex_iterator match(page.begin(), page.end(), row), end; match != end; ++match) {
    documented.insert((*match)[1].str() + " " + (*match)[2].str());
  }
  std::multiset<std::string> known;
  for (const ApiCodeRow& code : api_codes()) {
    known.insert(std::to_string(code.status) + " " + code.name);
  }
  EXPECT_EQ(documented, known);
}

TEST(ApiError, every_status_that_the_transport_refuses_with_has_a_code) {
  std::set<std::string> sources;
  const std::string source =
      read("/src/server/http_connection.cpp") + read("/src/server/http_message.cpp");
  const std::regex refusal(R"(refuse\((\d{3}),)");
  int n_found = 0;
  for (std::sregex_iterator match(source.begin(), source.end(), refusal), end; match != end;
       ++match) {
    const int status = std::stoi((*match)[1]);
    EXPECT_EQ((ApiError{code_of_refusal(status), ""}.status()), status);
    ++n_found;
  }
  EXPECT_GT(n_found, 5);
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
