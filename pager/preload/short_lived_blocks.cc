#include "pager/preload/short_lived_blocks.h"

#include <algorithm>
#include <bit>

#include "pager/base/assert.h"

namespace weightpager::preload {
namespace {

constexpr size_t smallest_bytes = 4 * MiB;
// What was long ago counts less and less.
constexpr uint32_t taken_max = 4096;

}  // namespace

size_t ShortLivedBlocks::class_of(size_t length_bytes) {
  if (length_bytes <= smallest_bytes) return 0;
  const size_t octave = static_cast<size_t>(std::bit_width(length_bytes) - 1);
  const size_t quarter = (length_bytes >> (octave - 2)) & 3;
  const size_t first = static_cast<size_t>(std::bit_width(smallest_bytes) - 1);
  return std::min((octave - first) * 4 + quarter, classes - 1);
}

bool ShortLivedBlocks::shall_be_plain(size_t length_bytes, uint64_t now_ns) {
  if (length_bytes > length_bytes_max) return false;
  const size_t number = class_of(length_bytes);
  Class& it = classes_[number];
  if (!it.is_plain) return false;
  if (has_old_plain_block(number, now_ns)) {
    be_mistaken(it);
    return false;
  }
  return it.plain_blocks < plain_of_class_max && plain_count_ < plain_.size() &&
         length_bytes <= plain_bytes_max - plain_bytes_;
}

void ShortLivedBlocks::note_plain(uintptr_t begin, size_t length_bytes, uint64_t now_ns) {
  const auto place = std::find_if(plain_.begin(), plain_.end(),
                                  [](const Plain& plain) { return plain.begin == 0; });
  WP_ASSERT(place != plain_.end());
  *place = {begin, length_bytes, now_ns};
  ++classes_[class_of(length_bytes)].plain_blocks;
  plain_bytes_ += length_bytes;
  ++plain_count_;
}

void ShortLivedBlocks::note_plain_end(uintptr_t begin, uint64_t now_ns) {
  const auto place = std::find_if(plain_.begin(), plain_.end(),
                                  [&](const Plain& plain) { return plain.begin == begin; });
  WP_ASSERT(begin != 0 && place != plain_.end());
  Class& it = classes_[class_of(place->length_bytes)];
  if (it.is_plain && now_ns - place->born_ns >= short_life_ns) be_mistaken(it);
  --it.plain_blocks;
  plain_bytes_ -= place->length_bytes;
  --plain_count_;
  *place = {};
}

bool ShortLivedBlocks::is_idle() const {
  return plain_count_ == 0 && std::none_of(classes_.begin(), classes_.end(),
                                           [](const Class& it) { return it.is_plain; });
}

void ShortLivedBlocks::note_spilled(size_t length_bytes) {
  if (length_bytes > length_bytes_max) return;
  Class& it = classes_[class_of(length_bytes)];
  if (++it.taken < taken_max) return;
  it.taken /= 2;
  it.short_lives /= 2;
}

void ShortLivedBlocks::note_spilled_end(size_t length_bytes, uint64_t life_ns) {
  if (length_bytes > length_bytes_max) return;
  Class& it = classes_[class_of(length_bytes)];
  if (life_ns >= short_life_ns) {
    it.taken = it.short_lives = 0;
    return;
  }
  ++it.short_lives;
  const uint32_t others = it.taken - std::min(it.taken, it.short_lives);
  if (it.short_lives >= it.lives_needed && others <= it.short_lives / 4) it.is_plain = true;
}

bool ShortLivedBlocks::has_old_plain_block(size_t number, uint64_t now_ns) const {
  return std::any_of(plain_.begin(), plain_.end(), [&](const Plain& plain) {
    return plain.begin != 0 && class_of(plain.length_bytes) == number &&
           now_ns - plain.born_ns >= short_life_ns;
  });
}

void ShortLivedBlocks::be_mistaken(Class& it) {
  it.is_plain = false;
  it.lives_needed = std::min(it.lives_needed * 2, lives_max);
  it.taken = it.short_lives = 0;
}

}  // namespace weightpager::preload
