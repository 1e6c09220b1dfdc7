#include "pager/preload/shown_blocks.h"

#include <bit>

#include "pager/base/units.h"

namespace weightpager::preload {
namespace {

// A block stands at one of so many places behind the first one.
constexpr size_t neighbours = 32;
static_assert(std::has_single_bit(ShownBlocks::places));

size_t first_place_of(uintptr_t begin) {
  constexpr uint64_t spread = 0x9e3779b97f4a7c15u;
  constexpr int place_bits = std::countr_zero(ShownBlocks::places);
  return static_cast<size_t>((begin / os_page_bytes * spread) >> (64 - place_bits));
}

size_t place_of(uintptr_t begin, size_t neighbour) {
  return (first_place_of(begin) + neighbour) % ShownBlocks::places;
}

}  // namespace

void ShownBlocks::add(uintptr_t begin, size_t length_bytes) {
  for (size_t i = 0; i < neighbours; ++i) {
    Place& place = table_[place_of(begin, i)];
    uintptr_t none = 0;
    if (!place.begin.compare_exchange_strong(none, begin)) continue;
    place.length_bytes.store(length_bytes);
    return;
  }
}

ShownBlocks::Place* ShownBlocks::find(uintptr_t begin) {
  for (size_t i = 0; i < neighbours; ++i) {
    Place& place = table_[place_of(begin, i)];
    if (place.begin.load() == begin) return &place;
  }
  return nullptr;
}

void ShownBlocks::resize(uintptr_t begin, size_t length_bytes) {
  if (Place* const place = find(begin)) place->length_bytes.store(length_bytes);
}

void ShownBlocks::remove(uintptr_t begin) {
  Place* const place = find(begin);
  if (place == nullptr) return;
  // Whoever takes the place next finds no old length there.
  place->length_bytes.store(0);
  place->begin.store(0);
}

size_t ShownBlocks::list(const Span& range, std::span<Span> to) const {
  size_t count = 0;
  for (const Place& place : table_) {
    if (count == to.size()) break;
    const uintptr_t begin = place.begin.load();
    if (begin < range.begin || begin >= range.end) continue;
    const size_t length_bytes = place.length_bytes.load();
    const bool is_still = length_bytes > 0 && place.begin.load() == begin;
    if (is_still) to[count++] = {begin, begin + length_bytes};
  }
  return count;
}

}  // namespace weightpager::preload
