#include "server/foreign_paths.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "server/routes.h"

namespace millrace {
namespace {

// "/slots/7" for "/slots/*".
std::string example_of(const ForeignPath& row) {
  std::string path(row.path);
  if (path.ends_with('*')) {
    path.back() = '7';
  }
  return path;
}

TEST(ForeignPaths, each_is_none_of_ours_and_stands_once) {
  std::set<std::string_view> seen;
  for (const ForeignPath& row : foreign_paths()) {
    EXPECT_TRUE(match_route("GET", example_of(row)).allow.empty()) << row.path;
    EXPECT_TRUE(seen.insert(row.path).second) << row.path;
    EXPECT_EQ(instead_of(example_of(row)), row.here) << row.path;
  }
}

TEST(ForeignPaths, what_is_here_in_their_place_exists) {
  int n_named = 0;
  for (const ForeignPath& row : foreign_paths()) {
    for (const std::string method : {"GET", "POST"}) {
      for (size_t at = row.here.find(method + " /"); at != std::string_view::npos;
           at = row.here.find(method + " /", at + 1)) {
        const std::string_view rest = row.here.substr(at + method.size() + 1);
        const std::string_view path = rest.substr(0, rest.find_first_of(" ,):"));
        EXPECT_NE(match_route(method, path).route, nullptr) << row.here;
        ++n_named;
      }
    }
  }
  EXPECT_GT(n_named, 30);
}

TEST(ForeignPaths, what_is_known_and_not_built_says_so) {
  for (const char* path : {"/v1/embeddings",
                           "/api/embed",
                           "/score",
                           "/v1/rerank",
                           "/v1/responses",
                           "/v1/responses/resp_1",
                           "/v1/audio/speech",
                           "/reset_prefix_cache",
                           "/infill",
                           "/api/pull",
                           "/v1/batches"}) {
    EXPECT_NE(instead_of(path).find("not built"), std::string_view::npos) << path;
  }
  EXPECT_EQ(instead_of("/v1/tokenize"), "POST /tokenize");
  EXPECT_EQ(instead_of("/api/chat"), "POST /v1/chat/completions");
  EXPECT_EQ(instead_of("/slots/"), "");  // nothing is below; a tidy path has no such end
  EXPECT_EQ(instead_of("/elsewhere"), "");
}

TEST(ForeignPaths, tidying_takes_doubled_slashes_and_a_doubled_v1_away) {
  EXPECT_EQ(tidy_path("//v1/v1/models/"), "/v1/models");
  EXPECT_EQ(tidy_path("/v1/v1x"), "/v1/v1x");
  EXPECT_EQ(tidy_path("/"), "/");
  EXPECT_EQ(tidy_path(""), "");
}

}  // namespace
}  // namespace millrace
