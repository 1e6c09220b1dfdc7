// Pieces that wait for their turn at the device: first in, first out, of fixed capacity.
#pragma once

#include <cstddef>
#include <vector>

#include "pager/base/assert.h"
#include "pager/io/read_table.h"

namespace weightpager::io {

/// Not synchronised. Allocates in its constructor only.
class PieceQueue {
 public:
  explicit PieceQueue(uint32_t capacity) : names_(capacity) {}

  bool is_empty() const { return count_ == 0; }

  void clear() { count_ = 0; }

  void push(PieceName name) {
    WP_ASSERT(count_ < names_.size());
    names_[(first_ + count_++) % names_.size()] = name;
  }

  PieceName pop() {
    WP_ASSERT(count_ > 0);
    const PieceName name = names_[first_];
    first_ = (first_ + 1) % names_.size();
    count_--;
    return name;
  }

 private:
  std::vector<PieceName> names_;
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace weightpager::io
