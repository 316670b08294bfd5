// How many of its draft's guesses the demo model accepts on what both were trained for, as the
// engine counts them. Every answer is drawn with a fixed seed, so the figures are the same every
// time.

#include <gtest/gtest.h>

#include <numeric>

#include "engine/test_engine.h"

namespace millrace {
namespace {

constexpr const char* kText =
    "Pip is a small fox who lives in a cabin by the sea. Pip is six years old and likes apple pie. "
    "One day Pip lost a red kite in the old tree.";

std::vector<std::string> questions() {
  const std::string text = kText;
  return {"Tell me a story.",
          "Tell me a story about a fox named Pip who loses a red kite.",
          "Tell me a story about a robot named Nora who finds a brass key.",
          text + "\nWhere did Pip live?",
          text + "\nWhat does Pip like?",
          text + "\nExtract the name, age and home as JSON about Pip.",
          "Repeat this text word for word. " + text,
          "What is 47 + 25?",
          "What is 81 - 36?",
          "Hello! Who are you, and what can you do?"};
}

// The share of the guesses that were looked at: those behind a wrong one are not.
double accepted_share(float temperature, uint64_t n_seeds) {
  EngineOptions options;
  options.adapts_drafts = false;
  options.copies_drafts = false;
  options.max_drafts = 4;
  options.has_prefix_cache = false;
  TestEngine rig(MILLRACE_DEMO "/demo.gguf", options, MILLRACE_DEMO "/demo-draft.gguf");
  for (const std::string& question : questions()) {
    const std::string turn =
        "<|im_start|>user\n" + question + "<|im_end|>\n<|im_start|>assistant\n";
    for (uint64_t seed = 0; seed < n_seeds; ++seed) {
      Request request;
      request.prompt = rig.engine->tokenizer().encode(turn, false, true);
      request.max_tokens = 300;
      request.sampling.temperature = temperature;
      request.seed = seed;
      EXPECT_GT(rig.ask(request).ids.size(), 2U) << question;
    }
  }
  const EngineStats stats = rig.engine->stats();
  const auto sum = [](const auto& counts) {
    return static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  };
  const double share = sum(stats.accepted_at) / (sum(stats.accepted_at) + sum(stats.rejected_at));
  EXPECT_GT(sum(stats.accepted_at), 500);
  std::printf("temperature %.1f: %.1f %% of the guesses accepted\n",
              static_cast<double>(temperature),
              100 * share);
  return share;
}

TEST(DemoPair, accepts_most_of_what_its_draft_guesses) {
  EXPECT_GE(accepted_share(0, 1), 0.75);
  EXPECT_GE(accepted_share(1, 5), 0.6);
}

}  // namespace
}  // namespace millrace
