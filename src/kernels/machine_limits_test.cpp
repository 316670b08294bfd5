#include "kernels/machine_limits.h"

#include <gtest/gtest.h>

#include <cstring>

namespace millrace::kernels {
namespace {

// The sum over all lanes that the loop must give for operands of ones: nothing was left out.
TEST(MachineProbe, dots_do_as_many_multiply_adds_as_they_say) {
  alignas(64) uint8_t operands[kProbeBytes];
  alignas(64) uint8_t out[kProbeBytes];
  for (const Isa isa : kAllIsas) {
    if (!isa_is_available(isa)) continue;
    const MachineProbe& probe = machine_probe(isa);
    for (const auto kind : {DotKind::kF32, DotKind::kInt16, DotKind::kInt8, DotKind::kBF16}) {
      if (probe.dot[static_cast<int>(kind)] == nullptr) continue;
      constexpr uint32_t kOnes[kDotKinds] = {0x3f800000, 0x00010001, 0x01010101, 0x3f803f80};
      for (int i = 0; i < kProbeBytes / 4; ++i) {
        std::memcpy(operands + 4 * i, &kOnes[static_cast<int>(kind)], 4);
      }
      std::memset(out, 0, sizeof(out));
      constexpr int kLoops = 3;
      probe.dot[static_cast<int>(kind)](operands, kLoops, out);
      double sum = 0;
      for (int i = 0; i < kProbeBytes / 4; ++i) {
        float as_float;
        int32_t as_int;
        std::memcpy(&as_float, out + 4 * i, 4);
        std::memcpy(&as_int, out + 4 * i, 4);
        const bool is_float = kind == DotKind::kF32 || kind == DotKind::kBF16;
        sum += is_float ? double{as_float} : static_cast<double>(as_int);
      }
      EXPECT_EQ(sum, kLoops * probe.macs[static_cast<int>(kind)])
          << isa_name(isa) << " kind " << static_cast<int>(kind);
    }
  }
}

TEST(MachineProbe, reads_every_byte) {
  std::vector<uint8_t> bytes(4096);
  alignas(64) uint8_t out[kProbeBytes];
  for (const Isa isa : kAllIsas) {
    if (!isa_is_available(isa)) continue;
    for (const size_t at : {0u, 1u, 1023u, 1024u, 2047u, 3000u, 4095u}) {
      bytes[at] = 64;
      for (const auto read : machine_probe(isa).read) {
        std::memset(out, 0, sizeof(out));
        read(bytes.data(), std::ssize(bytes), out);
        int any = 0;
        for (const uint8_t byte : out) any |= byte;
        EXPECT_EQ(any, 64) << isa_name(isa) << " byte " << at;
      }
      bytes[at] = 0;
    }
  }
}

TEST(MachineLimits, every_figure_of_every_available_tier_is_there) {
  WorkerPool pool(2);
  const MachineLimits limits = measure_machine(pool, 0);
  EXPECT_EQ(limits.n_workers, 2);
  EXPECT_GT(limits.read_one, 0);
  EXPECT_GT(limits.read_all, 0);
  EXPECT_GT(limits.barrier_seconds, 0);
  ASSERT_FALSE(limits.peaks.empty());
  EXPECT_EQ(limits.peaks.back().isa, detect_isa());
  for (const DotPeaks& peaks : limits.peaks) {
    EXPECT_TRUE(isa_is_available(peaks.isa));
    for (int kind = 0; kind < kDotKinds; ++kind) {
      const bool has_it = kind != static_cast<int>(DotKind::kBF16) || peaks.isa == Isa::kAvx512Bf16;
      EXPECT_EQ(peaks.one[kind] > 0, has_it);
      EXPECT_EQ(peaks.all[kind] > 0, has_it);
    }
  }
}

}  // namespace
}  // namespace millrace::kernels
