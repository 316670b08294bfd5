#include "model/model.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "base/worker_pool.h"
#include "formats/gguf.h"
#include "model/golden_testing.h"

namespace millrace {
namespace {

constexpr int kPage = PageFormat::kTokens;
constexpr int kMaxBatch = 640;

// A golden model with KV memory for a few sequences of up to 640 tokens in shuffled blocks.
class Session {
 public:
  Session(const std::string& golden, int n_threads, int n_sequences = 4)
      : pool_(n_threads), bytes_(test::read_golden(golden).gguf()) {
    auto file = parse_gguf(bytes_.bytes(), golden);
    EXPECT_TRUE(file);
    file_ = std::make_unique<Checkpoint>(*std::move(file));
    auto model = Model::load(*file_, {.pool = &pool_, .max_batch_tokens = kMaxBatch});
    EXPECT_TRUE(model) << model.error().message;
    model_ = *std::move(model);
    const ModelSpec& spec = model_->spec();
    constexpr int kBlocks = kMaxBatch / kPage;
    kv_ = std::make_unique<KvMemory>(*KvMemory::create(
        model_->page_format(), spec.n_layers, spec.n_kv_heads, n_sequences * kBlocks));
    // Blocks arrive used: whatever is in them must not matter.
    for (BlockId block = 0; block < BlockId(n_sequences * kBlocks); ++block) {
      std::memset(kv_->block(block).data(), 0xff, kv_->block_bytes());  // not a number
    }
    for (int i = 0; i < n_sequences; ++i) {
      auto& table = tables_.emplace_back();
      for (int b = 0; b < kBlocks; ++b)
        table.push_back(BlockId((kBlocks - 1 - b) * n_sequences + i));
    }
  }

  int n_vocab() const { return model_->spec().n_vocab; }

  Span span(std::span<const TokenId> tokens,
            int64_t position,
            int n_logits,
            int sequence = 0) const {
    return {tokens, position, tables_[size_t(sequence)], n_logits};
  }

  std::vector<float> forward(std::span<const Span> spans) {
    size_t n_rows = 0;
    for (const Span& span : spans) n_rows += size_t(span.n_logits);
    std::vector<float> logits(n_rows * size_t(n_vocab()));
    std::vector<float> maxima(n_rows * size_t(model_->n_head_panels()));
    model_->forward({spans}, *kv_, logits, maxima);
    expect_maxima(logits, maxima);
    return logits;
  }

  // Rows of every token, the prompt cut into chunks.
  std::vector<float> forward_chunked(std::span<const TokenId> tokens,
                                     size_t chunk,
                                     int sequence = 0) {
    std::vector<float> all;
    for (size_t at = 0; at < tokens.size(); at += chunk) {
      const auto part = tokens.subspan(at, std::min(chunk, tokens.size() - at));
      const Span one = span(part, int64_t(at), int(part.size()), sequence);
      const auto logits = forward({&one, 1});
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  }

 private:
  void expect_maxima(const std::vector<float>& logits, const std::vector<float>& maxima) const {
    const auto n_panels = size_t(model_->n_head_panels());
    for (size_t i = 0; i < maxima.size(); ++i) {
      const auto row = logits.begin() + int64_t(i / n_panels) * n_vocab();
      const auto begin = row + int64_t(i % n_panels) * 32;
      EXPECT_EQ(maxima[i], *std::max_element(begin, std::min(begin + 32, row + n_vocab()))) << i;
    }
  }

  WorkerPool pool_;
  Buffer bytes_;
  std::unique_ptr<Checkpoint> file_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvMemory> kv_;
  std::vector<std::vector<BlockId>> tables_;
};

std::vector<TokenId> random_tokens(size_t n, int n_vocab, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> tokens(n);
  for (TokenId& token : tokens) token = TokenId(random() % uint64_t(n_vocab));
  return tokens;
}

bool is_same(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// One of each: F32 and BF16 pages, biases, head norms, both rotary styles, K types.
class Invariance : public testing::TestWithParam<const char*> {};

TEST_P(Invariance, logits_are_the_same_for_any_chunking) {
  Session session(GetParam(), 2);
  const auto tokens = random_tokens(600, session.n_vocab(), 1);
  const auto whole = session.forward_chunked(tokens, tokens.size());
  for (const float x : whole) ASSERT_TRUE(std::isfinite(x));
  for (const size_t chunk : {size_t{16}, size_t{64}, size_t{512}}) {
    EXPECT_TRUE(is_same(session.forward_chunked(tokens, chunk, 1), whole)) << chunk;
  }
  const auto start = std::span(tokens).first(130);
  EXPECT_TRUE(is_same(session.forward_chunked(start, 1, 2),
                      std::span(whole).first(start.size() * size_t(session.n_vocab()))));
}

TEST_P(Invariance, logits_are_the_same_for_any_number_of_threads) {
  std::vector<float> first;
  for (const int n_threads : {1, 2, 3, 5}) {
    Session session(GetParam(), n_threads, 1);
    const auto tokens = random_tokens(90, session.n_vocab(), 2);
    auto logits = session.forward_chunked(tokens, 80);
    for (int i = 0; i < 3; ++i) {  // single tokens too
      const TokenId token = i;
      const Span one = session.span({&token, 1}, 90 + i, 1);
      const auto row = session.forward({&one, 1});
      logits.insert(logits.end(), row.begin(), row.end());
    }
    if (first.empty()) first = logits;
    EXPECT_TRUE(is_same(logits, first)) << n_threads;
  }
}

TEST_P(Invariance, logits_are_the_same_alone_and_in_a_batch_of_strangers) {
  Session session(GetParam(), 2);
  const int n_vocab = session.n_vocab();
  const auto tokens = random_tokens(150, n_vocab, 3);
  const auto alone = session.forward_chunked(tokens, 150, 0);
  // The same tokens as prefill, drafts and single steps, next to others that do the same.
  const auto other = random_tokens(300, n_vocab, 4);
  std::vector<float> together;
  size_t at = 0, other_at = 0;
  for (const size_t n : {70, 1, 4, 1, 60, 9, 5}) {
    const size_t n_other = at % 2 == 0 ? 33 : 1;
    const Span spans[] = {
        session.span(std::span(other).subspan(other_at, n_other), int64_t(other_at), 1, 1),
        session.span(std::span(tokens).subspan(at, n), int64_t(at), int(n), 2),
        session.span(std::span(other).subspan(other_at, n_other), int64_t(other_at), 0, 3)};
    const auto logits = session.forward(spans);
    together.insert(together.end(), logits.begin() + n_vocab, logits.end());
    at += n;
    other_at += n_other;
  }
  EXPECT_TRUE(is_same(together, alone));
}

INSTANTIATE_TEST_SUITE_P(
    Models,
    Invariance,
    testing::Values("llama_bias", "qwen2", "qwen3", "qwen3_q6_k", "llama_q4_k"),
    [](const auto& info) { return std::string(info.param); });

TEST(Model, forgets_tokens_that_were_written_past_the_position) {
  Session session("qwen3", 1, 2);
  const auto tokens = random_tokens(70, session.n_vocab(), 5);
  const auto want = session.forward_chunked(tokens, 70, 0);
  // Rejected drafts leave their keys behind; the next step overwrites or ignores them.
  const auto drafts = random_tokens(9, session.n_vocab(), 6);
  session.forward_chunked(std::span(tokens).first(60), 60, 1);
  const Span draft = session.span(drafts, 60, 0, 1);
  session.forward({&draft, 1});
  const Span rest = session.span(std::span(tokens).subspan(60), 60, 10, 1);
  const auto got = session.forward({&rest, 1});
  EXPECT_TRUE(is_same(got, std::span(want).subspan(60 * size_t(session.n_vocab()))));
}

TEST(Model, refuses_weights_that_are_not_numbers) {
  test::GoldenModel golden = test::read_golden("llama2");
  const float nan = std::nanf("");
  std::memcpy(golden.find("blk.1.ffn_norm.weight")->bytes.data() + 8, &nan, 4);
  const Buffer bytes = golden.gguf();
  const auto file = parse_gguf(bytes.bytes(), "nan.gguf");
  ASSERT_TRUE(file);
  WorkerPool pool(1);
  const auto model = Model::load(*file, {.pool = &pool});
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, testing::HasSubstr("blk.1.ffn_norm.weight"));
}

// Whether the embedding table is a matrix (qwen3 is tied) or stays in the file.
TEST(Model, reports_progress_up_to_the_last_matrix) {
  for (const char* name : {"llama2", "qwen3"}) {
    const Buffer bytes = test::read_golden(name).gguf();
    const auto file = parse_gguf(bytes.bytes(), name);
    ASSERT_TRUE(file) << name;
    WorkerPool pool(1);
    int64_t last = 0, total = 0;
    const auto report = [&](int64_t done, int64_t all) {
      EXPECT_GT(done, last) << name;
      last = done;
      total = all;
    };
    ASSERT_TRUE(Model::load(*file, {.pool = &pool, .progress = report})) << name;
    EXPECT_EQ(last, total) << name;
    EXPECT_GT(total, 0) << name;
  }
}

TEST(Model, counts_its_memory) {
  const Buffer bytes = test::read_golden("llama2").gguf();
  const auto file = parse_gguf(bytes.bytes(), "llama2");
  ASSERT_TRUE(file);
  WorkerPool pool(1);
  size_t total = 0;
  for (const TensorView& tensor : file->tensors()) {
    total += tensor.data.size();
  }
  const auto model = Model::load(*file, {.pool = &pool});
  ASSERT_TRUE(model);
  EXPECT_GE((*model)->weight_bytes(), total);
  EXPECT_LT((*model)->weight_bytes(), total * 2);
  EXPECT_GT((*model)->scratch_bytes(), 0u);
  EXPECT_EQ((*model)->page_format().type, KvType::kF32);
}

}  // namespace
}  // namespace millrace
