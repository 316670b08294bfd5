#include "cli/read_bandwidth.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/worker_pool.h"

namespace millrace {
namespace {

constexpr size_t kBufferBytes = size_t{384} << 20;
constexpr int kPasses = 6;
constexpr double kSeconds = 1;  // no pass begins later
constexpr int kStreams = 4;

// The sum keeps the reads; four streams keep the prefetchers busy.
uint64_t sum_of(const uint64_t* values, int64_t n) {
  std::array<const uint64_t*, kStreams> stream{};
  const int64_t n_each = n / kStreams / 8 * 8;
  for (int s = 0; s < kStreams; ++s) {
    stream[static_cast<size_t>(s)] = values + s * n_each;
  }
  std::array<std::array<uint64_t, 8>, kStreams> sums{};
  for (int64_t i = 0; i < n_each; i += 8) {
    for (size_t s = 0; s < kStreams; ++s) {
      for (size_t lane = 0; lane < 8; ++lane) {
        sums[s][lane] += stream[s][i + static_cast<int64_t>(lane)];
      }
    }
  }
  uint64_t total = 0;
  for (const auto& lanes : sums) {
    for (const uint64_t lane : lanes) {
      total += lane;
    }
  }
  return total;
}

}  // namespace

double measure_read_bandwidth(int n_threads) {
  auto buffer = Buffer::try_allocate(kBufferBytes);
  if (!buffer) {
    return 0;
  }
  WorkerPool pool(n_threads);
  const int64_t n = static_cast<int64_t>(kBufferBytes / sizeof(uint64_t));
  auto* values = buffer->as<uint64_t>();
  pool.run([&](int worker) {
    const Range range = share(n, worker, pool.size());
    std::fill(values + range.begin, values + range.end, 1);
  });
  std::atomic<uint64_t> total{0};
  double best = 0;
  const TimePoint first = Clock::now();
  for (int pass = 0; pass < kPasses && seconds_since(first) < kSeconds; ++pass) {
    const TimePoint begin = Clock::now();
    pool.run([&](int worker) {
      const Range range = share(n, worker, pool.size());
      total += sum_of(values + range.begin, range.end - range.begin);
    });
    best = std::max(best, static_cast<double>(kBufferBytes) / seconds_since(begin));
  }
  return total.load() > 0 ? best : 0;
}

}  // namespace millrace
