// Speed of the linear kernels on the best tier: weight bytes per second at one row (decode),
// multiply-adds per second at 512 rows (prefill), and packing. One thread and all of them.
#include <benchmark/benchmark.h>

#include <map>
#include <memory>

#include "base/cpu_info.h"
#include "base/worker_pool.h"
#include "kernels/linear_testing.h"

namespace millrace::kernels {
namespace {

// As large as the feed-forward weights of a 0.6 B model times a few: out of the caches.
constexpr int64_t kIn = 1024;
constexpr int64_t kDecodeOut = 64 * 1024;
constexpr int64_t kPrefillOut = 3072;

TestTensor tensor_of(const WeightType& type, int64_t n_out) {
  if (!type.is_tensor() || half_offsets(type.dtype).first >= 0) {
    return random_bits_tensor(type, n_out, kIn, 1);
  }
  return encoded_tensor(type, n_out, kIn, 1);
}

void run_linear(benchmark::State& state,
                const WeightType& type,
                Rounding rounding,
                int64_t n_out,
                int64_t n_rows,
                int n_workers) {
  WorkerPool pool(n_workers);
  const LinearWeights weights = *tensor_of(type, n_out).pack(rounding, pool);
  const Isa isa = detect_isa();
  const ActivationRows rows(kernel_table(isa), weights, gaussian(n_rows * kIn, 2), n_rows);
  const int64_t stride = result_stride(n_out);
  std::vector<float> out(static_cast<size_t>(n_rows * stride));
  for (auto _ : state) {
    pool.run([&](int worker) {
      linear(isa, weights, rows.row(0), n_rows, out.data(), stride, worker, n_workers);
    });
    benchmark::ClobberMemory();
  }
  const auto n_runs = static_cast<double>(state.iterations());
  state.counters["weights_GB/s"] = benchmark::Counter(
      n_runs * static_cast<double>(weights.bytes()) / 1e9, benchmark::Counter::kIsRate);
  state.counters["GMAC/s"] = benchmark::Counter(
      n_runs * static_cast<double>(n_rows * n_out * kIn) / 1e9, benchmark::Counter::kIsRate);
}

void run_pack(benchmark::State& state, const WeightType& type, int n_workers) {
  WorkerPool pool(n_workers);
  const TestTensor tensor = tensor_of(type, kDecodeOut);
  for (auto _ : state) {
    benchmark::DoNotOptimize(tensor.pack(Rounding::kFine, pool)->panels());
  }
  state.SetBytesProcessed(state.iterations() * std::ssize(tensor.bytes));
}

// All rows at once, so that the read stream is the limit and nothing else.
void run_read(benchmark::State& state, int n_workers) {
  constexpr int64_t kWords = 32 << 20;
  Buffer buffer = Buffer::allocate(kWords * 8);
  uint64_t* words = buffer.as<uint64_t>();
  WorkerPool pool(n_workers);
  std::vector<uint64_t> sums(static_cast<size_t>(n_workers) * 8);
  pool.run([&](int worker) {
    const Range range = share(kWords, worker, n_workers);
    std::fill(words + range.begin, words + range.end, 1u);
  });
  for (auto _ : state) {
    pool.run([&](int worker) {
      const Range range = share(kWords, worker, n_workers);
      uint64_t sum[8] = {};
      for (int64_t i = range.begin; i + 8 <= range.end; i += 8) {
        for (int j = 0; j < 8; ++j) {
          sum[j] |= words[i + j];
        }
      }
      for (const uint64_t part : sum) {
        sums[static_cast<size_t>(worker) * 8] += part;
      }
    });
    benchmark::DoNotOptimize(sums.data());
  }
  state.SetBytesProcessed(state.iterations() * kWords * 8);
}

void run_quantise(benchmark::State& state, ActivationKind kind) {
  const std::vector<float> x = gaussian(kIn, 3);
  Buffer row = Buffer::allocate(activation_row_bytes(kind, kIn));
  for (auto _ : state) {
    quantise_row(detect_isa(), kind, x.data(), kIn, row.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kIn);
}

ActivationKind kind_of(const WeightType& type, Rounding rounding) {
  return activation_kind(detect_isa(), type.format(), rounding);
}

void register_all() {
  const int all = default_thread_count(read_cpu_info());
  std::vector<int> counts = {1};
  if (all > 1) {
    counts.push_back(all);
  }
  const auto add = [](const std::string& name, auto body) {
    benchmark::RegisterBenchmark(name.c_str(), body)->UseRealTime()->Unit(benchmark::kMicrosecond);
  };
  for (const int n : counts) {
    add(fmt::format("read/threads:{}", n), [=](benchmark::State& state) { run_read(state, n); });
    for (const WeightType& type : all_weight_types()) {
      for (const Rounding rounding : {Rounding::kFine, Rounding::kCoarse}) {
        const bool is_coarse = rounding == Rounding::kCoarse;
        if (is_coarse && kind_of(type, Rounding::kCoarse) == kind_of(type, Rounding::kFine)) {
          continue;
        }
        const std::string name = type.name() + (is_coarse ? "_coarse" : "");
        for (const int64_t rows : {1, 2, 4, 8, 16, 32}) {
          add(fmt::format("decode/{}/rows:{}/threads:{}", name, rows, n),
              [=](auto& state) { run_linear(state, type, rounding, kDecodeOut, rows, n); });
        }
        add(fmt::format("prefill/{}/rows:512/threads:{}", name, n),
            [=](auto& state) { run_linear(state, type, rounding, kPrefillOut, 512, n); });
      }
      add(fmt::format("pack/{}/threads:{}", type.name(), n),
          [=](benchmark::State& state) { run_pack(state, type, n); });
    }
  }
  add("quantise/int8", [](auto& state) { run_quantise(state, ActivationKind::kInt8); });
  add("quantise/int8_per_32", [](auto& state) { run_quantise(state, ActivationKind::kInt8Per32); });
  add("quantise/int16", [](auto& state) { run_quantise(state, ActivationKind::kInt16); });
  add("quantise/bf16", [](auto& state) { run_quantise(state, ActivationKind::kBF16); });
}

const bool kIsRegistered = (register_all(), true);

}  // namespace
}  // namespace millrace::kernels
