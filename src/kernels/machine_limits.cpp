#include "kernels/machine_limits.h"

#include <algorithm>
#include <cstring>

#include "base/buffer.h"
#include "base/clock.h"

namespace millrace::kernels {
namespace {

// The least time of one run of `body` within about `seconds`, at least three runs.
template <class Body>
double best_time(double seconds, const Body& body) {
  double best = 0;
  const TimePoint begin = Clock::now();
  for (int i = 0; i < 3 || seconds_since(begin) < seconds; ++i) {
    const TimePoint start = Clock::now();
    body();
    const double took = seconds_since(start);
    best = i == 0 ? took : std::min(best, took);
  }
  return best;
}

struct alignas(64) ProbeMemory {
  uint8_t operands[kProbeBytes];
  uint8_t out[kProbeBytes];
};

// Multiply-adds a second of `workers` at once.
double dot_rate(
    const MachineProbe& probe, int kind, WorkerPool& pool, bool is_alone, double seconds) {
  std::vector<ProbeMemory> memory(static_cast<size_t>(pool.size()));
  for (ProbeMemory& own : memory) {
    // Small floats, whose bytes are small integers as well.
    for (int i = 0; i < kProbeBytes / 4; ++i) {
      const float value = 0.5f + 0.001f * static_cast<float>(i % 7);
      std::memcpy(own.operands + 4 * i, &value, sizeof(value));
    }
  }
  int64_t n_loops = 16;
  const auto run_one = [&](int worker) {
    ProbeMemory& own = memory[static_cast<size_t>(worker)];
    probe.dot[kind](own.operands, n_loops, own.out);
  };
  const auto run = [&] {
    if (is_alone) {
      run_one(0);
    } else {
      pool.run(run_one);
    }
  };
  // Long enough that the start and the clock do not matter, short enough to fit between others.
  while (best_time(0, run) < 0.002) n_loops *= 2;
  const double n_macs =
      static_cast<double>(n_loops) * probe.macs[kind] * (is_alone ? 1 : pool.size());
  return n_macs / best_time(seconds, run);
}

double read_rate(const MachineProbe& probe, WorkerPool& pool, bool is_alone, double seconds) {
  constexpr int64_t kBytes = 256 << 20;
  constexpr int64_t kUnit = 4096;  // shares are multiples of it
  Buffer buffer = Buffer::allocate(kBytes);
  auto* bytes = buffer.as<uint8_t>();
  const auto own_share = [&](int worker) {
    const Range units = share(kBytes / kUnit, worker, pool.size());
    return Range{units.begin * kUnit, units.end * kUnit};
  };
  pool.run([&](int worker) {
    const Range own = own_share(worker);
    std::memset(bytes + own.begin, 1, static_cast<size_t>(own.end - own.begin));
  });
  std::vector<ProbeMemory> memory(static_cast<size_t>(pool.size()));
  const double took = best_time(seconds, [&] {
    if (is_alone) {
      probe.read(bytes, kBytes, memory[0].out);
      return;
    }
    pool.run([&](int worker) {
      const Range own = own_share(worker);
      probe.read(bytes + own.begin, own.end - own.begin, memory[static_cast<size_t>(worker)].out);
    });
  });
  return kBytes / took;
}

}  // namespace

MachineLimits measure_machine(WorkerPool& pool, double seconds) {
  MachineLimits limits;
  limits.n_workers = pool.size();
  for (const Isa isa : kAllIsas) {
    if (!isa_is_available(isa)) continue;
    const MachineProbe& probe = machine_probe(isa);
    DotPeaks peaks{.isa = isa};
    for (int kind = 0; kind < kDotKinds; ++kind) {
      peaks.one[kind] = dot_rate(probe, kind, pool, true, seconds);
      peaks.all[kind] =
          pool.size() == 1 ? peaks.one[kind] : dot_rate(probe, kind, pool, false, seconds);
    }
    limits.peaks.push_back(peaks);
  }
  const MachineProbe& probe = machine_probe(limits.peaks.back().isa);
  limits.read_one = read_rate(probe, pool, true, seconds);
  limits.read_all = pool.size() == 1 ? limits.read_one : read_rate(probe, pool, false, seconds);
  if (pool.size() > 1) {
    constexpr int kRuns = 100;
    limits.barrier_seconds = best_time(seconds,
                                       [&] {
                                         for (int i = 0; i < kRuns; ++i) pool.run([](int) {});
                                       }) /
                             kRuns;
  }
  return limits;
}

}  // namespace millrace::kernels
