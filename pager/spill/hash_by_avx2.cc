// Includes only what defines no function that other files may define, too: theirs must run on every
// processor.
#include "pager/spill/hash_by_avx2.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace weightpager::spill {

ContentHash hash_by_avx2(const std::byte* bytes, uint64_t length_bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes, length_bytes);
  return {hash.low64, hash.high64};
}

}  // namespace weightpager::spill
