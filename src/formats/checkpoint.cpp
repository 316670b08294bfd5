#include "formats/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace millrace {

Checkpoint::Checkpoint(CheckpointParts parts)
    : parts_(std::move(parts)), by_name_(parts_.tensors.size()) {
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(), [this](uint32_t a, uint32_t b) {
    return parts_.tensors[a].name < parts_.tensors[b].name;
  });
}

std::string Checkpoint::format_text() const {
  return format() == CheckpointFormat::kGguf ? fmt::format("GGUF v{}", version()) : "safetensors";
}

uint64_t Checkpoint::file_bytes() const {
  uint64_t n_bytes = 0;
  for (const std::span<const std::byte> bytes : parts_.contents) n_bytes += bytes.size();
  return n_bytes;
}

std::optional<std::string_view> Checkpoint::side_file(std::string_view name) const {
  const auto file = std::ranges::find(parts_.side_files, name, &SideFile::name);
  if (file == parts_.side_files.end()) return std::nullopt;
  return file->text;
}

const TensorView* Checkpoint::find(std::string_view tensor) const {
  const auto at = std::lower_bound(
      by_name_.begin(), by_name_.end(), tensor, [this](uint32_t index, std::string_view wanted) {
        return parts_.tensors[index].name < wanted;
      });
  if (at == by_name_.end() || parts_.tensors[*at].name != tensor) return nullptr;
  return &parts_.tensors[*at];
}

std::string Checkpoint::name_in_file(std::string_view tensor) const {
  return parts_.name_in_file == nullptr ? std::string(tensor) : parts_.name_in_file(tensor);
}

void Checkpoint::drop_pages() const {
  for (const MappedFile& file : parts_.files) file.drop_pages();
}

}  // namespace millrace
