#pragma once
// Finds added tokens in a text: leftmost, then longest, as the reference tokenizers do.
// Immutable, any thread.

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

class AddedTokenTrie {
 public:
  // Value i belongs to texts[i]; of equal texts the last one counts. Empty texts are left out.
  explicit AddedTokenTrie(const std::vector<std::string>& texts);

  bool is_empty() const { return nodes_.size() == 1; }

  // Calls accept(value, end) for every added token that starts at `begin`, shortest first.
  template <class Accept>
  void match_at(std::string_view text, std::size_t begin, const Accept& accept) const {
    uint32_t node = 0;
    for (std::size_t at = begin; at < text.size(); ++at) {
      node = child(node, static_cast<unsigned char>(text[at]));
      if (node == 0) {
        return;
      }
      if (nodes_[node].value != kNoValue) {
        accept(nodes_[node].value, at + 1);
      }
    }
  }

  // The first place at or after `at` where a token may start; text.size() when there is none.
  std::size_t next_candidate(std::string_view text, std::size_t at) const {
    while (at < text.size() && !starts_[static_cast<unsigned char>(text[at])]) {
      ++at;
    }
    return at;
  }

 private:
  static constexpr int32_t kNoValue = -1;
  struct Node {
    uint32_t first_child = 0;  // into edges_, sorted by byte
    uint16_t n_children = 0;
    int32_t value = kNoValue;
  };
  struct Edge {
    unsigned char byte;
    uint32_t node;
  };

  uint32_t child(uint32_t node, unsigned char byte) const;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::bitset<256> starts_;
};

}  // namespace millrace
