#pragma once
// The engine: takes requests from any thread, answers on TokenStreams. Owns the engine thread,
// which owns sequences, scheduler and blocks, and is worker 0 of the model's worker pool.

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/result.h"
#include "engine/model_files.h"
#include "engine/request.h"
#include "engine/request_check.h"
#include "engine/token_stream.h"
#include "kernels/isa.h"
#include "kernels/kv_page.h"

namespace millrace {

// Bounds of the options, the same for the command line.
inline constexpr int kMaxThreads = 1024;
inline constexpr int kMaxSequences = 4096;
inline constexpr int kMaxDrafts = 32;
inline constexpr int kMaxWaiting = 1'000'000;
inline constexpr int kMaxQueueMilliseconds = 86'400'000;
inline constexpr int kMaxStepMilliseconds = 3'600'000;
inline constexpr int64_t kMinModelLen = 2;                 // up to the model's window
inline constexpr int64_t kMaxKvMemory = int64_t{1} << 46;  // bytes: half of the address space
inline constexpr int64_t kMaxKvDisk = int64_t{1} << 50;    // bytes
inline constexpr int64_t kDefaultKvDisk = int64_t{16} << 30;

struct EngineOptions {
  int n_threads = 0;                     // 0: physical cores within the CPU quota
  std::optional<kernels::Isa> isa = {};  // absent: the best the CPU has
  std::optional<int64_t> max_model_len =
      {};  // tokens; absent: the model's window or what memory allows
  std::optional<int64_t> kv_memory = {};  // bytes; absent: see plan_memory
  std::optional<KvType> kv_type = {};     // absent: F32 for F32 and F16 weights, else BF16
  int max_sequences = 64;                 // running at once
  int max_waiting = 512;                  // choices queued before submit answers kResourceExhausted
  int max_batch_tokens = 512;             // of one step
  int prefill_chunk = 256;  // of one sequence in one step; a multiple of 64, or a divisor
  // A step in which sequences decode computes no more of prompts than fits into this time; 0: twice
  // what the decodes take alone, at least 100 ms, and no less than a piece of 8 tokens. One token
  // is always computed.
  int max_step_ms = 0;
  int max_queue_ms = 0;  // a request that has waited longer ends with kResourceExhausted; 0: never
  int max_overtakings = 8;  // of a request that waits, by others that the cache serves
  // Tokens per second before the time to the next one: as if max_step_ms were endless.
  bool fills_steps = false;
  bool is_fair = false;  // between Request::client; priorities are then among those of one
  // One token through the model before the first request, so that this one does not pay for cold
  // memory. No request: nothing of it is counted.
  bool warms_up = false;
  int max_drafts = 8;            // tokens guessed for a sequence in a step; 0: no speculation
  bool copies_drafts = true;     // guesses what followed the same tokens before
  bool adapts_drafts = true;     // as many as pay; else always max_drafts, for tests
  bool has_prefix_cache = true;  // prompts start behind what has been computed before
  // A folder that keeps blocks beyond memory and this process; empty: none. See DiskTier.
  std::string kv_disk = {};
  int64_t kv_disk_bytes = kDefaultKvDisk;
  std::function<void(double fraction)> on_load_progress = {};
};

struct ModelInfo {
  std::string name;
  std::string architecture;
  int64_t max_model_len = 0;  // prompt + answer, tokens
  int32_t n_vocab = 0;        // of the tokenizer
  int64_t weight_bytes = 0;
  int64_t kv_bytes = 0;
  int64_t kv_bytes_per_token = 0;
  KvType kv_type = KvType::kBF16;
  int64_t n_blocks = 0;
  std::string memory_plan;  // one line for people
  int n_threads = 0;
  kernels::Isa isa = kernels::Isa::kScalar;
  double load_seconds = 0;
};

struct EngineStats {
  int64_t n_running = 0;
  int64_t n_waiting = 0;
  int64_t blocks_total = 0;
  int64_t blocks_free = 0;  // cached ones among them: they are given away when needed
  int64_t steps = 0;
  int64_t preemptions = 0;
  int64_t recomputed_tokens = 0;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;     // of those, found in the prefix cache
  int64_t loaded_tokens = 0;     // of these, brought from disk for the sequence
  bool is_stepping = false;      // what this step computes need not be among the next three yet
  int64_t unwritten_blocks = 0;  // on their way to the disk
  int64_t refused_blocks = 0;    // that the disk was too slow for; counted once for each offer
  int64_t failed_blocks = 0;     // that the disk took and could not write
  int64_t generated_tokens = 0;
  int64_t accepted_drafts = 0;
  int64_t rejected_drafts = 0;
  double copy_rate = 0;  // of copied guesses that come true, as speculation expects it; 0: no step
  // Of the first, second, ... token of a guess: came true, or was the first that did not.
  std::array<int64_t, kMaxDrafts> accepted_at{};
  std::array<int64_t, kMaxDrafts> rejected_at{};
};

class Engine {
 public:
  // Loads the weights (through options.n_threads workers) and starts the engine thread. draft: a
  // smaller model with the same tokenizer that guesses tokens ahead.
  // metrics outlives the engine.
  static Result<std::unique_ptr<Engine>> create(ModelFiles files,
                                                EngineOptions options,
                                                Metrics& metrics,
                                                std::optional<ModelFiles> draft = std::nullopt);
  ~Engine();  // aborts what still runs
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Any thread. Everything that can be wrong with a request is found here:
  // kInvalidArgument, kContextLength, kResourceExhausted (queue full), kUnavailable (draining).
  Result<std::shared_ptr<TokenStream>> submit(Request request, std::function<void()> on_ready = {});
  // Several, one stream each: either all are accepted or none, and none keeps others out meanwhile.
  Result<std::vector<std::shared_ptr<TokenStream>>> submit_all(
      std::vector<Request> requests, const std::function<void()>& on_ready = {});

  // Any thread. Refuses new requests, waits for the running ones until the deadline, aborts the
  // rest. True if none had to be aborted.
  bool drain(std::chrono::steady_clock::time_point deadline);

  bool is_draining() const;
  EngineStats stats() const;  // any thread
  const ModelInfo& info() const;
  const RequestLimits& limits() const;  // for find_fault
  const Tokenizer& tokenizer() const;
  const ChatTemplate* chat_template() const;  // null: none in the file
  const ModelFiles& files() const;

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// What a request without a seed gets. Below 2^53, so that every JSON reader gives back the seed
// that was reported.
uint64_t random_seed();
// Asks for one, as no seed does: what clients of llama.cpp send.
inline constexpr int64_t kAnySeed = -1;

// The seed of choice i of a request: choice 0 keeps the request's own.
uint64_t child_seed(uint64_t seed, int choice);

}  // namespace millrace
