// A list of chunks, sorted by recency, from which any chunk can be taken out or moved in O(1).
#pragma once

#include <cstdint>
#include <vector>

#include "pager/window/chunk_table.h"

namespace weightpager::policy {

/// A doubly linked list in preallocated memory; a chunk is in it at most once. Every operation but
/// `reset` is O(1) and allocates nothing.
class ChunkList {
 public:
  /// Empties the list and makes room for chunks 0 to `chunks` - 1.
  void reset(uint32_t chunks) {
    links_.assign(chunks + 1, Link{});
    links_[chunks] = {chunks, chunks, true};  // the end, where front and back hang
    size_ = 0;
  }

  uint32_t size() const { return size_; }
  bool contains(window::ChunkId chunk) const { return links_[chunk].is_in; }
  /// The last chunk, or no_chunk if the list is empty.
  window::ChunkId back() const { return chunk_or_none(links_.back().before); }
  /// The chunk in front of this one, or no_chunk.
  window::ChunkId before(window::ChunkId chunk) const {
    return chunk_or_none(links_[chunk].before);
  }

  /// Puts the chunk at the front (or the back), wherever it was before.
  void put_front(window::ChunkId chunk) {
    erase(chunk);
    insert(chunk, end(), links_.back().after);
  }
  void put_back(window::ChunkId chunk) {
    erase(chunk);
    insert(chunk, links_.back().before, end());
  }
  /// Nothing happens if the chunk is not in the list.
  void erase(window::ChunkId chunk) {
    Link& link = links_[chunk];
    if (!link.is_in) return;
    links_[link.before].after = link.after;
    links_[link.after].before = link.before;
    link.is_in = false;
    --size_;
  }

 private:
  struct Link {
    uint32_t before = 0;
    uint32_t after = 0;
    bool is_in = false;
  };

  uint32_t end() const { return static_cast<uint32_t>(links_.size() - 1); }
  window::ChunkId chunk_or_none(uint32_t index) const {
    return index == end() ? window::no_chunk : index;
  }
  void insert(window::ChunkId chunk, uint32_t before, uint32_t after) {
    links_[chunk] = {before, after, true};
    links_[before].after = chunk;
    links_[after].before = chunk;
    ++size_;
  }

  std::vector<Link> links_{Link{}};
  uint32_t size_ = 0;
};

}  // namespace weightpager::policy
