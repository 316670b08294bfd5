#include "engine/kv_identity.h"

#include <gnu/libc-version.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/libm_digest.h"
#include "base/mapped_file.h"
#include "engine/model_files.h"
#include "kv/block_pool.h"
#include "model/weights.h"

namespace millrace {
namespace {

// Shares of the work, so that one large tensor does not hold up everybody.
constexpr size_t kPieceBytes = size_t{8} << 20;

std::span<const std::byte> text(std::string_view value) {
  return std::as_bytes(std::span(value));
}

template <class T>
void add_value(Sha256& sha, const T& value) {
  sha.add_part(std::as_bytes(std::span(&value, 1)));
}

void add_metadata(Sha256& sha, const Checkpoint& file) {
  for (const GgufEntry& entry : file.metadata().entries()) {
    sha.add_part(text(entry.key));
    add_value(sha, entry.value.type);
    add_value(sha, entry.value.element_type);
    sha.add_part(entry.value.bytes);
  }
}

void add_coding(Sha256& sha, const CodedMatrix& coded) {
  add_value(sha, coded.layout);
  add_value(sha, coded.scale_rows);
  add_value(sha, coded.scale_columns);
  sha.add_part(std::as_bytes(std::span(coded.scales)));
  add_value(sha, coded.group_size);
  add_value(sha, coded.zero_offset);
  sha.add_part(coded.group_scales);
  sha.add_part(coded.group_zeros);
}

// Digests of pieces in the order of the file, each made by whoever has time.
void add_tensors(Sha256& sha, const Checkpoint& file, WorkerPool& workers) {
  std::vector<std::span<const std::byte>> pieces;
  for (const TensorView& tensor : file.tensors()) {
    sha.add_part(text(tensor.name));
    add_value(sha, tensor.dtype);
    add_value(sha, tensor.shape);
    add_value(sha, tensor.split_head_rows);
    if (tensor.coded != nullptr) add_coding(sha, *tensor.coded);
    for (auto rest = tensor.data; !rest.empty();) {
      const size_t n = std::min(rest.size(), kPieceBytes);
      pieces.push_back(rest.first(n));
      rest = rest.subspan(n);
    }
  }
  std::vector<Digest256> digests(pieces.size());
  workers.run([&](int worker) {
    Sha256 own;
    for (auto i = static_cast<size_t>(worker); i < pieces.size();
         i += static_cast<size_t>(workers.size())) {
      own.add(pieces[i]);
      digests[i] = own.finish();
    }
  });
  for (const Digest256& digest : digests) {
    sha.add(digest);
  }
}

}  // namespace

Result<BlockKey> kv_identity(const ModelFiles& files,
                             const ModelFiles* draft,
                             std::optional<KvType> type,
                             kernels::Isa isa,
                             WorkerPool& workers) {
  const auto program = MappedFile::open("/proc/self/exe");
  if (!program) {
    return propagate(program);
  }
  Sha256 sha;
  sha.add_part(text("millrace kv 3"));
  sha.add_part(program->bytes());
  sha.add_part(text(gnu_get_libc_version()));
  sha.add_part(text(kernels::isa_name(isa)));
  sha.add_part(libm_digest());
  add_value(sha, kBlockTokens);
  for (const ModelFiles* model : {&files, draft}) {
    add_value(sha, model != nullptr);
    if (model != nullptr) {
      const auto format = page_format(*model->checkpoint, model->spec, type);
      if (!format) {
        return propagate(format);
      }
      sha.add_part(text(kv_type_name(format->type)));
      add_value(sha, format->head_dim);
      add_metadata(sha, *model->checkpoint);
      add_tensors(sha, *model->checkpoint, workers);
    }
  }
  return sha.finish();
}

}  // namespace millrace
