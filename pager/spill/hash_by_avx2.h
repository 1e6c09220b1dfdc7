// The hash of content_hash.h by vectors of 32 bytes, which most processors have: 0.28 instead of
// 0.36 ms for 2 MiB. By vectors of 64 bytes it takes 0.255, but some processors run slower for a
// while after they used those; memory, which one processor reads at 9.7 GB/s here, is the bound.
//
// Its file is compiled for such processors, by itself, so that no other function is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pager/spill/content_hash.h"

namespace weightpager::spill {

/// The same hash. Requires a processor that has AVX2.
ContentHash hash_by_avx2(const std::byte* bytes, uint64_t length_bytes);

}  // namespace weightpager::spill
