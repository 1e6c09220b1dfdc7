#include "pager/spill/content_hash.h"

#include <algorithm>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "pager/base/units.h"
#include "pager/spill/hash_by_avx2.h"

namespace weightpager::spill {
namespace {

alignas(64) constexpr std::byte zeros[os_page_bytes] = {};

// By SSE2, which every x86-64 has.
ContentHash hash_by_sse2(const std::byte* bytes, uint64_t length_bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes, length_bytes);
  return {hash.low64, hash.high64};
}

}  // namespace

ContentHash content_hash(const std::byte* bytes, uint64_t length_bytes) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  return has_avx2 ? hash_by_avx2(bytes, length_bytes) : hash_by_sse2(bytes, length_bytes);
}

// The page of zeros stays in the nearest cache, so only `bytes` come from memory. The C library's
// memcmp uses the widest vectors that the processor has.
bool is_all_zero(const std::byte* bytes, uint64_t length_bytes) {
  while (length_bytes > 0) {
    const uint64_t compared_bytes = std::min<uint64_t>(length_bytes, sizeof zeros);
    if (std::memcmp(bytes, zeros, compared_bytes) != 0) return false;
    bytes += compared_bytes;
    length_bytes -= compared_bytes;
  }
  return true;
}

bool has_zero_page(const std::byte* bytes, uint64_t length_bytes) {
  for (uint64_t at = 0; at + os_page_bytes <= length_bytes; at += os_page_bytes) {
    if (std::memcmp(bytes + at, zeros, os_page_bytes) == 0) return true;
  }
  return false;
}

}  // namespace weightpager::spill
