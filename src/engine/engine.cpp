#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/human_bytes.h"
#include "base/inbox.h"
#include "base/philox.h"
#include "base/worker_pool.h"
#include "engine/engine_loop.h"
#include "engine/kv_identity.h"
#include "engine/memory_plan.h"
#include "engine/step_limits.h"
#include "kv/disk_tier.h"

namespace millrace {
namespace {

constexpr auto kDrainPoll = std::chrono::milliseconds(2);
// Between two looks at loads while nothing can be computed.
constexpr auto kTierPoll = std::chrono::microseconds(300);

Result<void> check_option(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    return fail(ErrorCode::kInvalidArgument, "{} must be {} to {}, got {}", name, low, high, value);
  }
  return {};
}

Result<void> check_options(const EngineOptions& options) {
  for (const Result<void>& check : {
           check_option("--threads", options.n_threads, 0, kMaxThreads),
           check_option("--max-sequences", options.max_sequences, 1, kMaxSequences),
           check_option("--max-waiting", options.max_waiting, 1, kMaxWaiting),
           check_option("max-batch-tokens", options.max_batch_tokens, 1, kMaxBatchTokens / 2),
           check_option("--max-step-ms", options.max_step_ms, 0, kMaxStepMilliseconds),
           check_option("--max-queue-ms", options.max_queue_ms, 0, kMaxQueueMilliseconds),
           check_option("max-overtakings", options.max_overtakings, 0, kMaxWaiting),
           check_option("--draft-max", options.max_drafts, 0, kMaxDrafts),
           check_option("prefill-chunk", options.prefill_chunk, 1, kMaxBatchTokens / 2),
           check_option("--kv-disk-size", options.kv_disk_bytes, 1, kMaxKvDisk),
       }) {
    if (!check) {
      return check;
    }
  }
  if (!is_chunk_size(options.prefill_chunk, kBlockTokens)) {
    return fail(ErrorCode::kInvalidArgument,
                "prefill-chunk must be a multiple of {} or divide it, got {}",
                kBlockTokens,
                options.prefill_chunk);
  }
  if (!options.kv_disk.empty() && !options.has_prefix_cache) {
    return fail(ErrorCode::kInvalidArgument,
                "--kv-disk keeps the prefix cache: leave out --no-prefix-cache");
  }
  return {};
}

// The content of the block is never looked at: a sequence that takes it writes it first.
void run_one_token(Model& model, KvMemory& kv) {
  const TokenId token = 0;
  const BlockId block = 0;
  const Span span{.tokens = {&token, 1}, .position = 0, .blocks = {&block, 1}, .n_logits = 1};
  std::vector<float> logits(static_cast<size_t>(model.spec().n_vocab));
  model.forward({.spans = {&span, 1}}, kv, logits);
}

}  // namespace

uint64_t random_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32 | device()) >> 11;
}

uint64_t child_seed(uint64_t seed, int choice) {
  if (choice == 0) {
    return seed;
  }
  constexpr uint32_t kStream = 0x6368696c;  // apart from the counters of the draw
  const PhiloxBlock bits = philox4x32(seed, {static_cast<uint32_t>(choice), 0, 0, kStream});
  return uint64_t{bits[0]} << 32 | bits[1];
}

class Engine::Impl {
 public:
  static Result<std::unique_ptr<Impl>> create(ModelFiles files,
                                              const EngineOptions& options,
                                              Metrics& metrics,
                                              std::optional<ModelFiles> draft);
  ~Impl();

  Result<std::vector<std::shared_ptr<TokenStream>>> submit_all(
      std::vector<Request> requests, const std::function<void()>& on_ready);
  bool drain(TimePoint deadline);
  EngineStats stats() const;

  ModelInfo info;
  RequestLimits limits;
  ModelFiles files;
  std::optional<ModelFiles> draft_files;
  std::atomic<bool> is_draining{false};

 private:
  Impl(ModelFiles model_files, int n_threads, int max_waiting)
      : files(std::move(model_files)),
        workers_(n_threads),
        inbox_(static_cast<size_t>(max_waiting)) {}

  Result<void> load(const EngineOptions& options, Metrics& metrics);
  struct LoadedModel {
    std::unique_ptr<Model> model;
    KvMemory kv;
  };

  LoadOptions load_options(const EngineOptions& options);
  Result<LoadedModel> load_model(const ModelFiles& model_files,
                                 const LoadOptions& options,
                                 int64_t n_blocks);
  Result<void> make_executor(const EngineOptions& options, const MemoryPlan& plan);
  Result<std::unique_ptr<TierTraffic>> make_traffic(const EngineOptions& options,
                                                    const MemoryPlan& plan,
                                                    Metrics& metrics);
  void make_loop(const EngineOptions& options,
                 const MemoryPlan& plan,
                 std::unique_ptr<TierTraffic> traffic,
                 Metrics& metrics);
  Result<std::unique_ptr<DraftModel>> load_draft(const LoadOptions& options,
                                                 int64_t n_blocks,
                                                 int32_t n_vocab);
  std::vector<TokenId> end_tokens_of(const Request& request) const;
  std::shared_ptr<RequestState> make_state(Request request, std::function<void()> on_ready) const;
  Result<void> reserve(int64_t n_choices);
  void run();

  WorkerPool workers_;
  std::unique_ptr<Executor> executor_;
  SharedCounters counters_;
  Inbox<std::shared_ptr<RequestState>> inbox_;  // outlives the loop, whose tier wakes it
  std::unique_ptr<EngineLoop> loop_;
  std::atomic<bool> is_aborting_{false};  // end everything that runs
  std::atomic<bool> is_stopping_{false};  // and the thread
  std::thread thread_;
};

Result<std::unique_ptr<Engine::Impl>> Engine::Impl::create(ModelFiles files,
                                                           const EngineOptions& options,
                                                           Metrics& metrics,
                                                           std::optional<ModelFiles> draft) {
  if (auto checked = check_options(options); !checked) {
    return propagate(checked);
  }
  std::unique_ptr<Impl> impl(new Impl(std::move(files), n_workers(options), options.max_waiting));
  if (options.max_drafts > 0) {
    impl->draft_files = std::move(draft);
  }
  if (auto loaded = impl->load(options, metrics); !loaded) {
    return propagate(loaded);
  }
  impl->thread_ = std::thread([raw = impl.get()] { raw->run(); });
  return impl;
}

LoadOptions Engine::Impl::load_options(const EngineOptions& options) {
  LoadOptions result;
  result.isa = options.isa.value_or(kernels::detect_isa());
  result.pool = &workers_;
  result.kv_type = options.kv_type;
  result.max_batch_tokens = max_step_tokens(options);
  if (options.on_load_progress) {
    result.progress = [report = options.on_load_progress](int64_t done, int64_t total) {
      report(total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1.0);
    };
  }
  return result;
}

// Weights and the memory for their KV.
Result<Engine::Impl::LoadedModel> Engine::Impl::load_model(const ModelFiles& model_files,
                                                           const LoadOptions& options,
                                                           int64_t n_blocks) {
  auto model = Model::load(*model_files.checkpoint, options);
  if (!model) {
    return propagate(model);
  }
  const ModelSpec& spec = (*model)->spec();
  auto kv = KvMemory::create((*model)->page_format(), spec.n_layers, spec.n_kv_heads, n_blocks);
  if (!kv) {
    return propagate(kv);
  }
  return LoadedModel{*std::move(model), *std::move(kv)};
}

// Null without a draft model.
Result<std::unique_ptr<DraftModel>> Engine::Impl::load_draft(const LoadOptions& options,
                                                             int64_t n_blocks,
                                                             int32_t n_vocab) {
  if (!draft_files) {
    return nullptr;
  }
  auto loaded = load_model(*draft_files, options, n_blocks);
  if (!loaded) {
    return fail(loaded.error().code, "draft model: {}", loaded.error().message);
  }
  const int32_t n_both = std::min(n_vocab, loaded->model->spec().n_vocab);
  return std::make_unique<DraftModel>(
      std::move(loaded->model), std::move(loaded->kv), workers_, n_both);
}

// The models, and whoever runs them.
Result<void> Engine::Impl::make_executor(const EngineOptions& options, const MemoryPlan& plan) {
  const LoadOptions loading = load_options(options);
  auto loaded = load_model(files, loading, plan.n_blocks);
  if (!loaded) {
    return propagate(loaded);
  }
  auto logits = Buffer::try_allocate(static_cast<size_t>(plan.logits_bytes));
  if (!logits) {
    return fail(logits.error().code, "[engine] logits: {}", logits.error().message);
  }
  auto draft = load_draft(loading, plan.n_blocks, limits.n_vocab);
  if (!draft) {
    return propagate(draft);
  }
  if (options.warms_up) {
    run_one_token(*loaded->model, loaded->kv);
  }
  executor_ = std::make_unique<Executor>(std::move(loaded->model),
                                         std::move(loaded->kv),
                                         workers_,
                                         limits.n_vocab,
                                         *std::move(logits),
                                         *std::move(draft));
  return {};
}

// Null without --kv-disk. The folder is looked at before anything large is loaded.
Result<std::unique_ptr<TierTraffic>> Engine::Impl::make_traffic(const EngineOptions& options,
                                                                const MemoryPlan& plan,
                                                                Metrics& metrics) {
  if (options.kv_disk.empty()) {
    return nullptr;
  }
  auto tier = DiskTier::open({.folder = options.kv_disk,
                              .max_bytes = options.kv_disk_bytes,
                              .block_bytes = plan.block_bytes,
                              .on_news = [this] { inbox_.wake(); }},
                             metrics);
  if (!tier) {
    return propagate(tier);
  }
  const auto identity = kv_identity(files,
                                    draft_files ? &*draft_files : nullptr,
                                    options.kv_type,
                                    options.isa.value_or(kernels::detect_isa()),
                                    workers_);
  if (!identity) {
    return propagate(identity);
  }
  return std::make_unique<TierTraffic>(
      *std::move(tier),
      *identity,
      kBlockTokens,
      [this](BlockId block) { return executor_->block_bytes(block); },
      metrics);
}

void Engine::Impl::make_loop(const EngineOptions& options,
                             const MemoryPlan& plan,
                             std::unique_ptr<TierTraffic> traffic,
                             Metrics& metrics) {
  loop_ = std::make_unique<EngineLoop>(*executor_,
                                       scheduler_limits(options, plan.n_blocks),
                                       Speculation{.max_drafts = options.max_drafts,
                                                   .copies = options.copies_drafts,
                                                   .adapts = options.adapts_drafts},
                                       LoopTimes{.max_step_seconds = options.max_step_ms / 1e3,
                                                 .max_queue_seconds = options.max_queue_ms / 1e3},
                                       *files.tokenizer,
                                       metrics,
                                       counters_,
                                       std::move(traffic));
}

Result<void> Engine::Impl::load(const EngineOptions& options, Metrics& metrics) {
  const TimePoint begin = Clock::now();
  const ModelFiles* draft = draft_files ? &*draft_files : nullptr;
  if (draft != nullptr) {
    if (auto checked = check_draft_files(files, *draft); !checked) {
      return checked;
    }
  }
  const auto plan = plan_memory(files, options, draft);
  if (!plan) {
    return propagate(plan);
  }
  limits = {.n_vocab = std::min(files.tokenizer->vocab_size(), files.spec.n_vocab),
            .max_model_len = plan->max_model_len,
            .max_waiting = options.max_waiting};
  auto traffic = make_traffic(options, *plan, metrics);
  if (!traffic) {
    return propagate(traffic);
  }
  if (auto made = make_executor(options, *plan); !made) {
    return made;
  }
  make_loop(options, *plan, *std::move(traffic), metrics);
  info = {.name = files.name,
          .architecture = files.spec.architecture,
          .max_model_len = plan->max_model_len,
          .n_vocab = limits.n_vocab,
          .weight_bytes = plan->weight_bytes,
          .kv_bytes = plan->kv_bytes(),
          .kv_bytes_per_token = plan->kv_bytes_per_token(),
          .kv_type = plan->kv_type,
          .n_blocks = plan->n_blocks,
          .memory_plan = plan->describe(),
          .n_threads = workers_.size(),
          .isa = options.isa.value_or(kernels::detect_isa()),
          .load_seconds = seconds_since(begin)};
  return {};
}

Engine::Impl::~Impl() {
  is_draining.store(true);
  is_aborting_.store(true);
  is_stopping_.store(true);
  if (thread_.joinable()) {
    inbox_.wake();
    thread_.join();
  }
}

std::vector<TokenId> Engine::Impl::end_tokens_of(const Request& request) const {
  std::vector<TokenId> tokens = request.stop_tokens;
  if (!request.ignore_eos) {
    const std::span<const TokenId> own = files.tokenizer->end_of_generation();
    tokens.insert(tokens.end(), own.begin(), own.end());
  }
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  std::erase_if(tokens, [&](TokenId token) { return token < 0 || token >= limits.n_vocab; });
  return tokens;
}

std::shared_ptr<RequestState> Engine::Impl::make_state(Request request,
                                                       std::function<void()> on_ready) const {
  auto state = std::make_shared<RequestState>();
  state->max_new = answer_limit(request, limits);
  state->seed = request.seed ? *request.seed : random_seed();
  state->end_tokens = end_tokens_of(request);
  state->stream = std::make_shared<TokenStream>(std::move(on_ready));
  state->submitted = Clock::now();
  if (request.timeout_ms) {
    state->deadline = request.received.value_or(state->submitted) +
                      std::chrono::milliseconds(*request.timeout_ms);
  }
  state->request = std::move(request);
  return state;
}

// Places in the queue, all or none.
Result<void> Engine::Impl::reserve(int64_t n_choices) {
  // Counted first: a drain that starts now either sees these choices or is seen here.
  counters_.n_live.fetch_add(n_choices);
  if (is_draining.load()) {
    counters_.n_live.fetch_sub(n_choices);
    return fail(ErrorCode::kUnavailable, "the engine is shutting down");
  }
  int64_t n_queued = counters_.n_queued.load();
  do {
    if (n_queued + n_choices > limits.max_waiting) {
      counters_.n_live.fetch_sub(n_choices);
      const int64_t n_free = limits.max_waiting - n_queued;
      return n_free == 0
                 ? fail(ErrorCode::kResourceExhausted,
                        "the queue is full: {} waiting already, at most {} may",
                        counted(n_queued, "answer"),
                        limits.max_waiting)
                 : fail(ErrorCode::kResourceExhausted,
                        "the queue has room for {}, this request has {} (at most {} may wait)",
                        counted(n_free, "answer"),
                        n_choices,
                        limits.max_waiting);
    }
  } while (!counters_.n_queued.compare_exchange_weak(n_queued, n_queued + n_choices));
  return {};
}

Result<std::vector<std::shared_ptr<TokenStream>>> Engine::Impl::submit_all(
    std::vector<Request> requests, const std::function<void()>& on_ready) {
  int64_t n_choices = 0;
  for (const Request& request : requests) {
    if (auto checked = check_request(request, limits); !checked) {
      return propagate(checked);
    }
    n_choices += request.n;
  }
  if (auto reserved = reserve(n_choices); !reserved) {
    return propagate(reserved);
  }
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (Request& request : requests) {
    auto state = make_state(std::move(request), on_ready);
    streams.push_back(state->stream);
    inbox_.push_always(std::move(state));  // its place is reserved
  }
  return streams;
}

void Engine::Impl::run() {
  std::vector<std::shared_ptr<RequestState>> arrived;
  while (true) {
    arrived.clear();
    inbox_.drain(arrived);
    for (std::shared_ptr<RequestState>& state : arrived) {
      loop_->submit(std::move(state));
    }
    if (is_aborting_.load()) {
      loop_->abort_all({ErrorCode::kUnavailable, "the engine is shutting down"});
      if (is_stopping_.load()) {
        return;
      }
    }
    if (loop_->is_idle()) {
      loop_->rest();
      inbox_.wait();
    } else {
      loop_->step();
      if (loop_->waits_for_tier()) {
        std::this_thread::sleep_for(kTierPoll);
      }
    }
  }
}

bool Engine::Impl::drain(TimePoint deadline) {
  is_draining.store(true);
  while (counters_.n_live.load() > 0 && Clock::now() < deadline) {
    std::this_thread::sleep_for(kDrainPoll);
  }
  const bool is_complete = counters_.n_live.load() == 0;
  is_aborting_.store(true);
  inbox_.wake();
  while (counters_.n_live.load() > 0) {
    std::this_thread::sleep_for(kDrainPoll);
  }
  return is_complete;
}

EngineStats Engine::Impl::stats() const {
  const auto load = [](const std::atomic<int64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  EngineStats stats{.n_running = load(counters_.n_running),
                    .n_waiting = load(counters_.n_queued),
                    .blocks_total = info.n_blocks,
                    .blocks_free = load(counters_.blocks_free),
                    .steps = load(counters_.steps),
                    .preemptions = load(counters_.preemptions),
                    .recomputed_tokens = load(counters_.recomputed_tokens),
                    .prompt_tokens = load(counters_.prompt_tokens),
                    .cached_tokens = load(counters_.cached_tokens),
                    .loaded_tokens = load(counters_.loaded_tokens),
                    .is_stepping = counters_.is_stepping.load(),
                    .unwritten_blocks = loop_->n_unwritten_blocks(),
                    .refused_blocks = load(counters_.refused_offers),
                    .failed_blocks = loop_->n_failed_blocks(),
                    .generated_tokens = load(counters_.generated_tokens),
                    .accepted_drafts = load(counters_.accepted_drafts),
                    .rejected_drafts = load(counters_.rejected_drafts),
                    .copy_rate = counters_.copy_rate.load(std::memory_order_relaxed)};
  std::ranges::transform(counters_.accepted_at, stats.accepted_at.begin(), load);
  std::ranges::transform(counters_.rejected_at, stats.rejected_at.begin(), load);
  return stats;
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::create(ModelFiles files,
                                               EngineOptions options,
                                               Metrics& metrics,
                                               std::optional<ModelFiles> draft) {
  auto impl = Impl::create(std::move(files), options, metrics, std::move(draft));
  if (!impl) {
    return propagate(impl);
  }
  return std::unique_ptr<Engine>(new Engine(std::move(*impl)));
}

Result<std::shared_ptr<TokenStream>> Engine::submit(Request request,
                                                    std::function<void()> on_ready) {
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  auto streams = impl_->submit_all(std::move(requests), on_ready);
  if (!streams) {
    return propagate(streams);
  }
  return std::move(streams->front());
}

Result<std::vector<std::shared_ptr<TokenStream>>> Engine::submit_all(
    std::vector<Request> requests, const std::function<void()>& on_ready) {
  return impl_->submit_all(std::move(requests), on_ready);
}

bool Engine::drain(std::chrono::steady_clock::time_point deadline) {
  return impl_->drain(deadline);
}

bool Engine::is_draining() const {
  return impl_->is_draining.load();
}

EngineStats Engine::stats() const {
  return impl_->stats();
}

const ModelInfo& Engine::info() const {
  return impl_->info;
}

const RequestLimits& Engine::limits() const {
  return impl_->limits;
}

const Tokenizer& Engine::tokenizer() const {
  return *impl_->files.tokenizer;
}

const ChatTemplate* Engine::chat_template() const {
  return impl_->files.chat_template.get();
}

const ModelFiles& Engine::files() const {
  return impl_->files;
}

}  // namespace millrace
