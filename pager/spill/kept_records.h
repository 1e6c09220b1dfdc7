// The index of a file of kept chunks, as bytes: which content lies at which place.
//
// A head of 32 bytes, and a record of 32 bytes for each place, at that place's number. A record has
// the content's hash, its place's number plus one, and a checksum of these. So a record can be
// written alone and again; one of zeros, or one that a power failure has cut, says nothing. That a
// place has the content is never taken from a record alone: the bytes are compared first
// (loop/kept_chunks.h).
//
// Pure. Integers are as x86-64 has them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pager/spill/content_hash.h"

namespace weightpager::spill {

inline constexpr uint64_t kept_record_bytes = 32;
using KeptRecordBytes = std::array<std::byte, kept_record_bytes>;

struct KeptRecord {
  uint64_t place = 0;  // its number
  ContentHash hash;

  bool operator==(const KeptRecord&) const = default;
};

/// The head of an index whose places are so large.
KeptRecordBytes kept_head(uint64_t place_bytes);
KeptRecordBytes kept_record(const KeptRecord& record);
/// Where the record of a place lies in the index.
inline uint64_t kept_record_offset(uint64_t place) { return (place + 1) * kept_record_bytes; }

struct KeptRecords {
  uint64_t place_bytes = 0;
  std::vector<KeptRecord> records;
};
/// Nothing: these bytes do not begin as an index does.
std::optional<KeptRecords> parse_kept_records(std::span<const std::byte> index);

}  // namespace weightpager::spill
