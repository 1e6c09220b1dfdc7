// Traces as bytes.
//
//     8 bytes   "WPTRACE\n"
//     4         version: 3 with threads, otherwise 2 (1 has no `shared`)
//     4         0
//     8         length of what follows the checksum
//     8         checksum of that: XXH3, 64 bits, seed 0
//     …         the trace
//
// Numbers above are little-endian. The trace itself is a row of numbers in LEB128: 7 bits a byte,
// the lowest first; every byte of a number but the last has its top bit set. A "step" is the
// difference d to the number before it in the same list (at first: to 0). It is written as 2d, or
// as 2|d| - 1 where d is negative.
//
//     name: length, then so many bytes as they are
//     chunk_bytes, chunks
//     cyclic: count, steps
//     layer_begins: count, steps
//     revisited: count, steps
//     shared: count, steps
//     experts: count, each: layer, count of slabs, each: count of parts, each:
//         step of the chunk (to the part before, across slabs and experts), begin_bytes, end_bytes
//     pass_begins: count, steps
//     threads, and parts: count, each: step of begin, 2 (thread + 1) + is_met (thread + 1 = 0:
//     any);
//         of version 3 only
//     touches: count, each: step of the chunk, offset_bytes + 1 (0: anywhere), compute_ns
//
// About 6 bytes a touch. A reader refuses a trace that is damaged, contradicts itself or goes on
// too long; the memory that it allocates is in proportion to the file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/simulate/trace.h"

namespace weightpager::simulate {

std::vector<std::byte> encode(const Trace& trace);

/// Fails for anything but a sound trace of one of these versions. `name` is the file's, for
/// messages.
Result<Trace> decode(std::span<const std::byte> bytes, const std::string& name);

/// Whether these are the first bytes of a trace, damaged or not.
bool looks_like_trace(std::span<const std::byte> bytes);

/// Fails unless an engine could have left this trace: every number is within its bounds. `name` is
/// for messages.
Status check(const Trace& trace, const std::string& name);

}  // namespace weightpager::simulate
