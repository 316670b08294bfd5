#include "model/forward_pass.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"

namespace millrace {

using kernels::ActivationKind;
using kernels::LinearWeights;

namespace {

const float* data_or_null(const std::vector<float>& values) {
  return values.empty() ? nullptr : values.data();
}

}  // namespace

Result<std::unique_ptr<ForwardPass>> ForwardPass::create(const ModelSpec& spec,
                                                         const Weights& weights,
                                                         kernels::Isa isa,
                                                         WorkerPool& pool,
                                                         PageFormat format,
                                                         int max_tokens,
                                                         const ScratchSizes& sizes) {
  std::unique_ptr<ForwardPass> pass(new ForwardPass(spec, weights, isa, pool, format));
  for (auto step : {pass->allocate(max_tokens, sizes), pass->allocate_workers(sizes)}) {
    if (!step) return fail(step.error().code, "[model] scratch: {}", step.error().message);
  }
  return pass;
}

ForwardPass::ForwardPass(const ModelSpec& spec,
                         const Weights& weights,
                         kernels::Isa isa,
                         WorkerPool& pool,
                         PageFormat format)
    : spec_(spec),
      weights_(weights),
      isa_(isa),
      pool_(pool),
      format_(format),
      angles_(spec.rope, spec.head_dim, weights.rope_factors),
      heads_per_job_(std::min(spec.group_size(), kernels::kAttentionRows)),
      tokens_per_job_(kernels::kAttentionRows / heads_per_job_),
      embd_stride_(kernels::result_stride(spec.n_embd)),
      query_stride_(kernels::result_stride(spec.n_query())),
      key_stride_(kernels::result_stride(spec.n_key())),
      ff_stride_(kernels::result_stride(spec.n_ff)) {}

Result<void> ForwardPass::allocate(int max_tokens, const ScratchSizes& sizes) {
  const auto n = static_cast<size_t>(max_tokens);
  rows_.reserve(n);
  tiles_.reserve(n);
  logit_rows_.reserve(n);
  std::vector<std::pair<Buffer*, size_t>> buffers{{&x_[0], sizes.residual},
                                                  {&x_[1], sizes.residual},
                                                  {&delta_, sizes.residual},
                                                  {&turns_, sizes.turns},
                                                  {&wide_, sizes.wide()}};
  for (size_t kind = 0; kind < kernels::kActivationKinds; ++kind) {
    buffers.emplace_back(&shared_rows_[kind], sizes.shared_rows[kind]);
  }
  for (const auto& [buffer, n_bytes] : buffers) {
    auto memory = Buffer::try_allocate(n_bytes);
    if (!memory) return propagate(memory);
    *buffer = *std::move(memory);
  }
  q_ = wide_.as<float>();
  k_ = q_ + sizes.query / sizeof(float);
  v_ = k_ + sizes.key / sizeof(float);
  mixed_ = v_ + sizes.key / sizeof(float);
  gate_ = wide_.as<float>();
  up_ = gate_ + sizes.feed_forward / sizeof(float);
  return {};
}

Result<void> ForwardPass::allocate_workers(const ScratchSizes& sizes) {
  for (int worker = 0; worker < pool_.size(); ++worker) {
    auto memory = Buffer::try_allocate(sizes.per_worker());
    if (!memory) return propagate(memory);
    std::byte* at = worker_memory_.emplace_back(*std::move(memory)).data();
    const auto take = [&](size_t bytes) { return std::exchange(at, at + bytes); };
    Workspace& own = workspaces_.emplace_back();
    own.values = reinterpret_cast<float*>(take(sizes.own_values));
    own.attention = reinterpret_cast<float*>(take(sizes.own_attention));
    for (size_t kind = 0; kind < kernels::kActivationKinds; ++kind) {
      own.rows[kind] = take(sizes.own_rows[kind]);
    }
  }
  return {};
}

size_t ForwardPass::scratch_bytes() const {
  size_t bytes = x_[0].size() + x_[1].size() + delta_.size() + wide_.size() + turns_.size();
  for (const Buffer& buffer : shared_rows_) bytes += buffer.size();
  for (const Buffer& buffer : worker_memory_) bytes += buffer.size();
  return bytes;
}

void ForwardPass::run(const Batch& batch,
                      KvMemory& kv,
                      std::span<float> logits,
                      std::span<float> maxima) {
  plan(batch);
  embed();
  for (int layer = 0; layer < spec_.n_layers; ++layer) run_layer(layer, kv);
  run_head(logits, maxima);
}

// Flattens the batch. Tiles with the most work come first so that the last ones to finish are
// short.
void ForwardPass::plan(const Batch& batch) {
  rows_.clear();
  tiles_.clear();
  logit_rows_.clear();
  is_one_tile_each_ = heads_per_job_ == spec_.group_size();
  for (const Span& span : batch.spans) {
    const auto first_row = static_cast<int>(rows_.size());
    const auto n_tokens = static_cast<int>(span.tokens.size());
    for (int i = 0; i < n_tokens; ++i) {
      rows_.push_back({span.tokens[static_cast<size_t>(i)], span.position + i, span.blocks.data()});
      if (i >= n_tokens - span.n_logits) logit_rows_.push_back(first_row + i);
    }
    for (int i = 0; i < n_tokens; i += tokens_per_job_) {
      tiles_.push_back({first_row + i, std::min(tokens_per_job_, n_tokens - i)});
    }
    is_one_tile_each_ = is_one_tile_each_ && n_tokens <= tokens_per_job_;
  }
  const auto cost = [&](const Tile& tile) {
    return (rows_[static_cast<size_t>(tile.first_row)].position + tile.n_tokens) * tile.n_tokens;
  };
  std::ranges::sort(tiles_, [&](const Tile& a, const Tile& b) { return cost(a) > cost(b); });
}

void ForwardPass::embed() {
  x_now_ = 0;
  has_delta_ = false;
  const DTypeInfo& type = dtype_info(weights_.embedding.dtype);
  const int half = spec_.head_dim / 2;
  pool_.run([&](int worker) {
    const Range own = share(static_cast<int64_t>(rows_.size()), worker, pool_.size());
    for (int64_t i = own.begin; i < own.end; ++i) {
      const Row& row = rows_[static_cast<size_t>(i)];
      type.decode(
          weights_.embedding.row(row.token), x_[0].as<float>() + i * embd_stride_, spec_.n_embd);
      float* cosines = turns_.as<float>() + i * spec_.head_dim;
      angles_.write(row.position, cosines, cosines + half);
    }
  });
}

void ForwardPass::run_layer(int layer, KvMemory& kv) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const auto n_rows = static_cast<int>(rows_.size());
  float* delta = delta_.as<float>();

  project(n_rows,
          {{&weights.q, q_, query_stride_},
           {&weights.k, k_, key_stride_},
           {&weights.v, v_, key_stride_}},
          [&](int64_t row, bool keeps, float* values) {
            return normalise_row(row, weights.attn_norm, nullptr, keeps, values);
          });
  if (has_delta_) x_now_ ^= 1;

  run_attention(layer, kv);

  project(n_rows, {{&weights.output, delta, embd_stride_}}, [&](int64_t row, bool, float*) {
    return mixed_ + row * query_stride_;
  });
  has_delta_ = true;

  project(n_rows,
          {{&weights.gate, gate_, ff_stride_}, {&weights.up, up_, ff_stride_}},
          [&](int64_t row, bool keeps, float* values) {
            return normalise_row(row, weights.ffn_norm, &weights.output_bias, keeps, values);
          });
  x_now_ ^= 1;

  project(n_rows, {{&weights.down, delta, embd_stride_}}, [&](int64_t row, bool, float* values) {
    const int64_t at = row * ff_stride_;
    kernels::swiglu(isa_, gate_ + at, up_ + at, spec_.n_ff, values);
    return values;
  });
}

void ForwardPass::run_attention(int layer, KvMemory& kv) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const auto n_tiles = static_cast<int64_t>(tiles_.size());
  if (!is_one_tile_each_) {  // a tile reads keys that other tiles store
    pool_.run([&](int worker) {
      const Range own = share(n_tiles * spec_.n_kv_heads, worker, pool_.size());
      for (int64_t item = own.begin; item < own.end; ++item) {
        const Tile tile = tiles_[static_cast<size_t>(item / spec_.n_kv_heads)];
        store_keys(weights, layer, kv, tile, static_cast<int>(item % spec_.n_kv_heads));
      }
    });
  }
  const int jobs_per_group = (spec_.group_size() + heads_per_job_ - 1) / heads_per_job_;
  const int64_t jobs_per_tile = int64_t{spec_.n_kv_heads} * jobs_per_group;
  next_item_.store(0, std::memory_order_relaxed);
  pool_.run([&](int worker) {
    for (;;) {
      const int64_t item = next_item_.fetch_add(1, std::memory_order_relaxed);
      if (item >= n_tiles * jobs_per_tile) return;
      const Tile tile = tiles_[static_cast<size_t>(item / jobs_per_tile)];
      const auto job = static_cast<int>(item % jobs_per_tile);
      const int kv_head = job / jobs_per_group;
      const int skipped = job % jobs_per_group * heads_per_job_;
      if (is_one_tile_each_) store_keys(weights, layer, kv, tile, kv_head);
      attend(weights,
             layer,
             kv,
             tile,
             kv_head * spec_.group_size() + skipped,
             std::min(heads_per_job_, spec_.group_size() - skipped),
             workspaces_[static_cast<size_t>(worker)].attention);
    }
  });
}

void ForwardPass::store_keys(
    const LayerWeights& weights, int layer, KvMemory& kv, Tile tile, int kv_head) {
  const int64_t at = int64_t{kv_head} * spec_.head_dim;
  const float* k_bias = data_or_null(weights.k_bias);
  const float* v_bias = data_or_null(weights.v_bias);
  for (int64_t i = tile.first_row; i < tile.first_row + tile.n_tokens; ++i) {
    const Row& row = rows_[static_cast<size_t>(i)];
    float* k = k_ + i * key_stride_ + at;
    float* v = v_ + i * key_stride_ + at;
    const float* cosines = turns_.as<float>() + i * spec_.head_dim;
    kernels::rotate_head(isa_,
                         {.x = k,
                          .bias = k_bias == nullptr ? nullptr : k_bias + at,
                          .norm_weight = data_or_null(weights.k_norm),
                          .cosines = cosines,
                          .sines = cosines + spec_.head_dim / 2,
                          .head_dim = spec_.head_dim,
                          .is_half_split = spec_.rope.style == RotaryStyle::kHalfSplit,
                          .eps = spec_.rms_eps,
                          .scale = 1.0f});
    if (v_bias != nullptr) {
      for (int dim = 0; dim < spec_.head_dim; ++dim) v[dim] += v_bias[at + dim];
    }
    const BlockId block = row.blocks[row.position / PageFormat::kTokens];
    kernels::store_kv(isa_,
                      format_.type,
                      {.k = k,
                       .v = v,
                       .page = reinterpret_cast<uint8_t*>(kv.page(block, layer, kv_head)),
                       .k_bytes = static_cast<int64_t>(format_.k_bytes()),
                       .head_dim = spec_.head_dim,
                       .v_dim = format_.v_dim(),
                       .slot = static_cast<int32_t>(row.position % PageFormat::kTokens)});
  }
}

void ForwardPass::attend(const LayerWeights& weights,
                         int layer,
                         KvMemory& kv,
                         Tile tile,
                         int first_head,
                         int n_heads,
                         float* scratch) {
  // Scores are powers of two, so the logarithm's base goes into the scale of q.
  const auto scale =
      static_cast<float>(std::numbers::log2e / std::sqrt(static_cast<double>(spec_.head_dim)));
  const float* q_bias = data_or_null(weights.q_bias);
  for (int64_t i = tile.first_row; i < tile.first_row + tile.n_tokens; ++i) {
    const float* cosines = turns_.as<float>() + i * spec_.head_dim;
    for (int head = first_head; head < first_head + n_heads; ++head) {
      const int64_t at = int64_t{head} * spec_.head_dim;
      kernels::rotate_head(isa_,
                           {.x = q_ + i * query_stride_ + at,
                            .bias = q_bias == nullptr ? nullptr : q_bias + at,
                            .norm_weight = data_or_null(weights.q_norm),
                            .cosines = cosines,
                            .sines = cosines + spec_.head_dim / 2,
                            .head_dim = spec_.head_dim,
                            .is_half_split = spec_.rope.style == RotaryStyle::kHalfSplit,
                            .eps = spec_.rms_eps,
                            .scale = scale});
    }
  }
  const Row& row = rows_[static_cast<size_t>(tile.first_row)];
  const int64_t at = int64_t{tile.first_row} * query_stride_ + int64_t{first_head} * spec_.head_dim;
  const int kv_head = first_head / spec_.group_size();
  kernels::attend(isa_,
                  format_.type,
                  {.q = q_ + at,
                   .out = mixed_ + at,
                   .q_stride = query_stride_,
                   .out_stride = query_stride_,
                   .n_tokens = tile.n_tokens,
                   .n_heads = n_heads,
                   .head_dim = spec_.head_dim,
                   .v_dim = format_.v_dim(),
                   .position = row.position,
                   .pages = reinterpret_cast<const uint8_t*>(kv.page(0, layer, kv_head)),
                   .block_bytes = static_cast<int64_t>(kv.block_bytes()),
                   .k_bytes = static_cast<int64_t>(format_.k_bytes()),
                   .blocks = row.blocks,
                   .scratch = scratch});
}

void ForwardPass::run_head(std::span<float> logits, std::span<float> maxima) {
  if (logit_rows_.empty()) return;
  const kernels::PanelMaxima head_maxima{.values = maxima.empty() ? nullptr : maxima.data(),
                                         .stride = weights_.head.n_panels()};
  project(
      static_cast<int>(logit_rows_.size()),
      {{&weights_.head, logits.data(), weights_.head.n_out(), head_maxima}},
      [&](int64_t row, bool, float* values) {
        return normalise_row(
            logit_rows_[static_cast<size_t>(row)], weights_.output_norm, nullptr, false, values);
      });
}

const float* ForwardPass::normalise_row(int64_t row,
                                        const std::vector<float>& weight,
                                        const std::vector<float>* delta_bias,
                                        bool keeps,
                                        float* values) {
  const int64_t at = row * embd_stride_;
  kernels::residual_norm(isa_,
                         {.x = x_[x_now_].as<float>() + at,
                          .delta = has_delta_ ? delta_.as<float>() + at : nullptr,
                          .delta_bias = delta_bias == nullptr ? nullptr : data_or_null(*delta_bias),
                          .weight = weight.data(),
                          .h = keeps && has_delta_ ? x_[x_now_ ^ 1].as<float>() + at : nullptr,
                          .y = values,
                          .n = spec_.n_embd,
                          .eps = spec_.rms_eps});
  return values;
}

template <class MakeRow>
void ForwardPass::make_rows(Range rows,
                            std::initializer_list<Projection> projections,
                            bool keeps,
                            float* values,
                            std::byte* const* out,
                            const MakeRow& make_row) {
  const int64_t n_in = projections.begin()->weights->n_in();
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const float* input = make_row(row, keeps, values);
    bool is_made[kernels::kActivationKinds] = {};
    for (const Projection& projection : projections) {
      const ActivationKind kind = projection.weights->activation(isa_);
      if (std::exchange(is_made[static_cast<int>(kind)], true)) continue;
      const size_t row_bytes = kernels::activation_row_bytes(kind, n_in);
      std::byte* to = out[static_cast<int>(kind)] + static_cast<size_t>(row) * row_bytes;
      kernels::quantise_row(isa_, kind, input, n_in, to);
    }
  }
}

template <class MakeRow>
void ForwardPass::project(int n_rows,
                          std::initializer_list<Projection> projections,
                          const MakeRow& make_row) {
  const int64_t n_in = projections.begin()->weights->n_in();
  const bool makes_own = n_rows <= kMaxOwnRows && n_rows * n_in <= kMaxOwnValues;
  std::byte* shared[kernels::kActivationKinds];
  for (int kind = 0; kind < kernels::kActivationKinds; ++kind) {
    shared[kind] = shared_rows_[kind].data();
  }
  if (!makes_own) {
    pool_.run([&](int worker) {
      float* values = workspaces_[static_cast<size_t>(worker)].values;
      make_rows(share(n_rows, worker, pool_.size()), projections, true, values, shared, make_row);
    });
  }
  pool_.run([&](int worker) {
    const Workspace& own = workspaces_[static_cast<size_t>(worker)];
    if (makes_own) {
      make_rows({0, n_rows}, projections, worker == 0, own.values, own.rows, make_row);
    }
    for (const Projection& projection : projections) {
      const auto kind = static_cast<int>(projection.weights->activation(isa_));
      kernels::linear(isa_,
                      *projection.weights,
                      makes_own ? own.rows[kind] : shared[kind],
                      n_rows,
                      projection.out,
                      projection.stride,
                      worker,
                      pool_.size(),
                      projection.maxima);
    }
  });
}

}  // namespace millrace
