#include "text/added_token_trie.h"

#include <algorithm>
#include <utility>

namespace millrace {

AddedTokenTrie::AddedTokenTrie(const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string_view, int32_t>> sorted;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i].empty()) {
      sorted.emplace_back(texts[i], static_cast<int32_t>(i));
      starts_.set(static_cast<unsigned char>(texts[i][0]));
    }
  }
  std::sort(sorted.begin(), sorted.end());
  // Breadth first, a level at a time, so that the children of a node lie side by side. Work holds
  // the nodes of a level with their ranges of `sorted`.
  struct Work {
    uint32_t node;
    std::size_t begin;
    std::size_t end;
  };
  nodes_.emplace_back();
  std::vector<Work> level = {{0, 0, sorted.size()}};
  for (std::size_t depth = 0; !level.empty(); ++depth) {
    std::vector<Work> below;
    for (Work work : level) {
      while (work.begin < work.end && sorted[work.begin].first.size() == depth) {
        nodes_[work.node].value = sorted[work.begin++].second;
      }
      nodes_[work.node].first_child = static_cast<uint32_t>(edges_.size());
      while (work.begin < work.end) {
        const char byte = sorted[work.begin].first[depth];
        std::size_t end = work.begin;
        while (end < work.end && sorted[end].first[depth] == byte) {
          ++end;
        }
        const auto node = static_cast<uint32_t>(nodes_.size());
        nodes_.emplace_back();
        edges_.push_back({static_cast<unsigned char>(byte), node});
        ++nodes_[work.node].n_children;
        below.push_back({node, work.begin, end});
        work.begin = end;
      }
    }
    level = std::move(below);
  }
}

uint32_t AddedTokenTrie::child(uint32_t node, unsigned char byte) const {
  const auto first = edges_.begin() + nodes_[node].first_child;
  const auto last = first + nodes_[node].n_children;
  // std::string_view sorts bytes as unsigned, so the edges are sorted as well.
  const auto edge = std::lower_bound(
      first, last, byte, [](const Edge& e, unsigned char wanted) { return e.byte < wanted; });
  return edge != last && edge->byte == byte ? edge->node : 0;
}

}  // namespace millrace
