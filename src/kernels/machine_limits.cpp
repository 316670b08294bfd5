#include "kernels/machine_limits.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/spin_pause.h"

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
  size_t turn = 0;
  const double took = best_time(seconds, [&] {
    const auto read = probe.read[++turn % 2];
    if (is_alone) {
      read(bytes, kBytes, memory[0].out);
      return;
    }
    pool.run([&](int worker) {
      const Range own = own_share(worker);
      read(bytes + own.begin, own.end - own.begin, memory[static_cast<size_t>(worker)].out);
    });
  });
  return kBytes / took;
}

// A phase in which every worker takes part, and there is nothing to do: each waits for the others
// to have begun, since a free worker would take a late one's share.
double barrier_time(WorkerPool& pool, double seconds) {
  constexpr int kRuns = 20;
  constexpr int kSpins = 1000;  // then the other may need this processor
  return best_time(seconds,
                   [&] {
                     for (int i = 0; i < kRuns; ++i) {
                       std::atomic<int> n_begun{0};
                       pool.run([&](int) {
                         ++n_begun;
                         for (int poll = 0; n_begun.load() < pool.size(); ++poll) {
                           poll < kSpins ? spin_pause() : std::this_thread::yield();
                         }
                       });
                     }
                   }) /
         kRuns;
}

}  // namespace

DotKind dot_kind(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kF32:
      return DotKind::kF32;
    case ActivationKind::kInt8:
    case ActivationKind::kInt8Per32:
      return DotKind::kInt8;
    case ActivationKind::kInt16:
      return DotKind::kInt16;
    case ActivationKind::kBF16:
      return DotKind::kBF16;
  }
  MR_CHECK(false, "activation kind {}", static_cast<int>(kind));
}

const char* dot_kind_name(DotKind kind) {
  constexpr const char* kNames[kDotKinds] = {"f32", "int16", "int8", "bf16"};
  return kNames[static_cast<int>(kind)];
}

const DotPeaks& MachineLimits::peaks_of(Isa isa) const {
  const auto found = std::ranges::find(peaks, isa, &DotPeaks::isa);
  MR_CHECK(found != peaks.end(), "{} was not measured", isa_name(isa));
  return *found;
}

MachineLimits better_of(const MachineLimits& a, const MachineLimits& b) {
  MachineLimits best = a;
  best.read_one = std::max(a.read_one, b.read_one);
  best.read_all = std::max(a.read_all, b.read_all);
  best.barrier_seconds = std::min(a.barrier_seconds, b.barrier_seconds);
  for (DotPeaks& peaks : best.peaks) {
    const DotPeaks& other = b.peaks_of(peaks.isa);
    for (int kind = 0; kind < kDotKinds; ++kind) {
      peaks.one[kind] = std::max(peaks.one[kind], other.one[kind]);
      peaks.all[kind] = std::max(peaks.all[kind], other.all[kind]);
    }
  }
  return best;
}

MachineLimits measure_machine(WorkerPool& pool, double seconds) {
  MachineLimits limits;
  limits.n_workers = pool.size();
  for (const Isa isa : kAllIsas) {
    if (!isa_is_available(isa)) continue;
    const MachineProbe& probe = machine_probe(isa);
    DotPeaks peaks{.isa = isa};
    for (int kind = 0; kind < kDotKinds; ++kind) {
      if (probe.dot[kind] == nullptr) continue;
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
    limits.barrier_seconds = barrier_time(pool, seconds);
  }
  return limits;
}

}  // namespace millrace::kernels
