#include "model/model.h"

#include <utility>

#include "base/check.h"
#include "formats/checkpoint.h"
#include "model/forward_pass.h"
#include "model/memory_need.h"
#include "model/weights.h"

namespace millrace {

struct Model::State {
  ModelSpec spec;
  kernels::Isa isa = kernels::Isa::kScalar;
  Weights weights;
  PageFormat format;
  int max_batch_tokens = 0;
  std::unique_ptr<ForwardPass> pass;
};

Model::Model() : state_(std::make_unique<State>()) {}
Model::~Model() = default;

Result<std::unique_ptr<Model>> Model::load(const Checkpoint& file, const LoadOptions& options) {
  MR_CHECK(options.pool != nullptr, "[model] a worker pool is required");
  if (options.max_batch_tokens < 1 || options.max_batch_tokens > kMaxBatchTokens) {
    return fail(ErrorCode::kInvalidArgument,
                "[model] max_batch_tokens {} is not in 1 .. {}",
                options.max_batch_tokens,
                kMaxBatchTokens);
  }
  auto spec = read_model_spec(file);
  if (!spec) return propagate(spec);
  const auto format = millrace::page_format(file, *spec, options.kv_type);
  if (!format) return propagate(format);
  auto weights = load_weights(file, *spec, *options.pool, options.progress);
  if (!weights) return propagate(weights);

  auto model = std::unique_ptr<Model>(new Model);
  State& state = *model->state_;
  state.spec = *std::move(spec);
  state.isa = options.isa;
  state.weights = *std::move(weights);
  state.format = *format;
  state.max_batch_tokens = options.max_batch_tokens;
  const MemoryNeed need =
      memory_need(file, state.spec, state.format, options.max_batch_tokens, options.isa);
  auto pass = ForwardPass::create(state.spec,
                                  state.weights,
                                  options.isa,
                                  *options.pool,
                                  state.format,
                                  options.max_batch_tokens,
                                  need.scratch);
  if (!pass) return propagate(pass);
  state.pass = *std::move(pass);
  return model;
}

const ModelSpec& Model::spec() const {
  return state_->spec;
}
kernels::Isa Model::isa() const {
  return state_->isa;
}
PageFormat Model::page_format() const {
  return state_->format;
}
int Model::max_batch_tokens() const {
  return state_->max_batch_tokens;
}
size_t Model::weight_bytes() const {
  return millrace::weight_bytes(state_->weights, state_->spec);
}
size_t Model::scratch_bytes() const {
  return state_->pass->scratch_bytes();
}

int64_t Model::n_head_panels(const ModelSpec& spec) {
  return (spec.n_vocab + kernels::kPanelRows - 1) / kernels::kPanelRows;
}

void Model::forward(const Batch& batch,
                    KvMemory& kv,
                    std::span<float> logits,
                    std::span<float> maxima) {
  const ModelSpec& spec = state_->spec;
  MR_CHECK(kv.format() == state_->format && kv.n_layers() == spec.n_layers &&
               kv.n_kv_heads() == spec.n_kv_heads,
           "[forward] the KV memory was made for another model");
  size_t n_tokens = 0;
  size_t n_logits = 0;
  for (const Span& span : batch.spans) {
    const auto n = static_cast<int64_t>(span.tokens.size());
    MR_CHECK(n > 0 && span.position >= 0, "[forward] {} tokens at {}", n, span.position);
    MR_CHECK(span.n_logits >= 0 && span.n_logits <= n,
             "[forward] {} rows of {} tokens",
             span.n_logits,
             n);
    const int64_t n_blocks = (span.position + n + PageFormat::kTokens - 1) / PageFormat::kTokens;
    MR_CHECK(static_cast<int64_t>(span.blocks.size()) >= n_blocks,
             "[forward] {} blocks for {} tokens",
             span.blocks.size(),
             span.position + n);
    for (const TokenId token : span.tokens) {
      MR_CHECK(token >= 0 && token < spec.n_vocab, "[forward] token {} of {}", token, spec.n_vocab);
    }
    for (int64_t i = 0; i < n_blocks; ++i) {
      const BlockId block = span.blocks[static_cast<size_t>(i)];
      MR_CHECK(block < kv.n_blocks(), "[forward] block {} of {}", block, kv.n_blocks());
    }
    n_tokens += span.tokens.size();
    n_logits += static_cast<size_t>(span.n_logits);
  }
  MR_CHECK(n_tokens <= static_cast<size_t>(state_->max_batch_tokens),
           "[forward] {} tokens, scratch holds {}",
           n_tokens,
           state_->max_batch_tokens);
  MR_CHECK(logits.size() == n_logits * static_cast<size_t>(spec.n_vocab),
           "[forward] room for {} logits, wanted {} rows of {}",
           logits.size(),
           n_logits,
           spec.n_vocab);
  MR_CHECK(maxima.empty() || maxima.size() == n_logits * static_cast<size_t>(n_head_panels()),
           "[forward] room for {} maxima, wanted {} rows of {}",
           maxima.size(),
           n_logits,
           n_head_panels());
  if (n_tokens > 0) state_->pass->run(batch, kv, logits, maxima);
}

}  // namespace millrace
