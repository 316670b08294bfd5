#pragma once
// Random tensor rows, the same for any number of threads.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/worker_pool.h"
#include "tensor/dtype.h"

namespace millrace {

struct RandomTensor {
  uint32_t stream = 0;  // its number in the file
  DType dtype = DType::kF32;
  int64_t n_in = 0;
  int64_t n_rows = 1;
  float mean = 0.0f;
  float deviation = 0.0f;
  // Rows of another stream, which row r takes from row (r + n_rows - shift) % n_rows, but for a
  // share of them, which keep their own.
  uint32_t source_stream = 0;
  int64_t shift = 0;  // 0: all rows are its own
  double own_share = 0;
};

// Normal values as a pure function of (seed, stream, position): each takes 16 bits of Philox to
// pick one of 65,536 equally likely quantiles, which is exact enough for weights and takes about 2
// ns.
class NormalStream {
 public:
  explicit NormalStream(uint64_t seed);

  // Row `row` of the stream, the first out.size() values of it. Any thread.
  void fill(uint32_t stream, int64_t row, float mean, float deviation, std::span<float> out) const;

  // Where a row of the tensor comes from.
  struct Source {
    uint32_t stream = 0;
    int64_t row = 0;
  };
  Source source_of(const RandomTensor& tensor, int64_t row) const;

 private:
  uint64_t seed_;
  std::vector<float> quantiles_;
};

// Hands the encoded rows, n_rows of row_bytes(n_in), to `write` in order, in chunks of a few MiB of
// whole rows. n_in: a multiple of the type's block. Ends with the first error of `write`.
using WriteBytes = std::function<Result<void>(std::span<const std::byte>)>;
Result<void> generate_tensor(const NormalStream& normals,
                             const RandomTensor& tensor,
                             WorkerPool& pool,
                             const WriteBytes& write);

}  // namespace millrace
