// What a chunk contains, in 16 bytes: to know a chunk again without its bytes at hand.
//
// A chunk that comes out as it went in need not be written again, and one of zeros needs no place
// on the disk at all. Both must be told at the speed of memory, because every chunk that leaves is
// asked.
//
// XXH3 of 128 bits is proof against accidents, not against forgers: it may say what need not be
// written once more, where only the engine itself has written. Cost: bench/content_hash_bench.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weightpager::spill {

struct ContentHash {
  uint64_t low = 0;
  uint64_t high = 0;

  bool operator==(const ContentHash&) const = default;
};

ContentHash content_hash(const std::byte* bytes, uint64_t length_bytes);

/// Returns at the first 4 KiB that are not zero.
bool is_all_zero(const std::byte* bytes, uint64_t length_bytes);
/// Whether any page of 4 KiB is all zero. Of a page that is not, mostly the first bytes say so.
bool has_zero_page(const std::byte* bytes, uint64_t length_bytes);

}  // namespace weightpager::spill
