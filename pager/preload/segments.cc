#include "pager/preload/segments.h"

#include <algorithm>
#include <new>

#include "pager/base/assert.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"

namespace weightpager::preload {
namespace {

constexpr size_t pool_step_bytes = 64 * KiB;

size_t free_bytes_below(const Segment* segment) {
  return segment == nullptr ? 0 : segment->free_bytes_max;
}

void update(Segment* segment) {
  segment->free_bytes_max =
      std::max({segment->is_free ? segment->length_bytes : 0, free_bytes_below(segment->left),
                free_bytes_below(segment->right)});
}

/// Divides a tree into what begins in front of the address and what does not.
void split(Segment* tree, uintptr_t address, Segment*& front, Segment*& rest) {
  if (tree == nullptr) {
    front = rest = nullptr;
    return;
  }
  if (tree->begin < address) {
    split(tree->right, address, tree->right, rest);
    front = tree;
  } else {
    split(tree->left, address, front, tree->left);
    rest = tree;
  }
  update(tree);
}

/// All of `front` lies in front of `rest`.
Segment* join(Segment* front, Segment* rest) {
  if (front == nullptr) return rest;
  if (rest == nullptr) return front;
  if (front->priority > rest->priority) {
    front->right = join(front->right, rest);
    update(front);
    return front;
  }
  rest->left = join(front, rest->left);
  update(rest);
  return rest;
}

void update_way_to(Segment* tree, uintptr_t begin) {
  if (tree->begin != begin) update_way_to(begin < tree->begin ? tree->left : tree->right, begin);
  update(tree);
}

}  // namespace

bool Segments::reserve(size_t count) {
  while (unused_count_ < count) {
    void* const memory = kernel::mmap(nullptr, pool_step_bytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    auto* const nodes = static_cast<Segment*>(memory);
    for (size_t i = 0; i < pool_step_bytes / sizeof(Segment); ++i) recycle(new (nodes + i) Segment);
  }
  return true;
}

Segment* Segments::make() {
  WP_ASSERT(unused_ != nullptr);
  Segment* const made = unused_;
  unused_ = made->right;
  --unused_count_;
  // xorshift32
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  *made = Segment{};
  made->priority = random_;
  return made;
}

void Segments::recycle(Segment* segment) {
  segment->right = unused_;
  unused_ = segment;
  ++unused_count_;
}

void Segments::insert(Segment* segment) {
  segment->left = segment->right = nullptr;
  update(segment);
  Segment* front = nullptr;
  Segment* rest = nullptr;
  split(root_, segment->begin, front, rest);
  root_ = join(join(front, segment), rest);
}

void Segments::erase(Segment* segment) {
  Segment* front = nullptr;
  Segment* self = nullptr;
  Segment* rest = nullptr;
  split(root_, segment->begin, front, rest);
  split(rest, segment->begin + 1, self, rest);
  WP_ASSERT(self == segment);
  root_ = join(front, rest);
}

void Segments::note_change(const Segment* segment) { update_way_to(root_, segment->begin); }

Segment* Segments::at(uintptr_t address) const {
  Segment* found = nullptr;
  for (Segment* it = root_; it != nullptr;) {
    const bool is_behind = address < it->begin;
    if (!is_behind) found = it;
    it = is_behind ? it->left : it->right;
  }
  return found != nullptr && address < found->end() ? found : nullptr;
}

Segment* Segments::first_free(size_t length_bytes) const {
  if (free_bytes_below(root_) < length_bytes) return nullptr;
  Segment* it = root_;
  while (true) {
    if (free_bytes_below(it->left) >= length_bytes) {
      it = it->left;
    } else if (it->is_free && it->length_bytes >= length_bytes) {
      return it;
    } else {
      it = it->right;
    }
  }
}

}  // namespace weightpager::preload
