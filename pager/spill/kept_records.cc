#include "pager/spill/kept_records.h"

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "pager/base/units.h"

namespace weightpager::spill {
namespace {

constexpr uint64_t kept_magic = 0x314b50504b505757;
// Chunks of 64 KiB to 2 MiB, and some more.
constexpr uint64_t kept_place_bytes_max = 1 * GiB;

struct RawRecord {
  uint64_t words[3] = {};
  uint64_t checksum = 0;
};
static_assert(sizeof(RawRecord) == kept_record_bytes);

KeptRecordBytes bytes_of(RawRecord raw) {
  raw.checksum = XXH3_64bits(raw.words, sizeof raw.words);
  KeptRecordBytes bytes;
  std::memcpy(bytes.data(), &raw, sizeof raw);
  return bytes;
}

std::optional<RawRecord> raw_at(std::span<const std::byte> index, uint64_t offset_bytes) {
  RawRecord raw;
  std::memcpy(&raw, index.data() + offset_bytes, sizeof raw);
  if (raw.checksum != XXH3_64bits(raw.words, sizeof raw.words)) return std::nullopt;
  return raw;
}

}  // namespace

KeptRecordBytes kept_head(uint64_t place_bytes) {
  return bytes_of({.words = {kept_magic, place_bytes, 0}});
}

KeptRecordBytes kept_record(const KeptRecord& record) {
  return bytes_of({.words = {record.place + 1, record.hash.low, record.hash.high}});
}

std::optional<KeptRecords> parse_kept_records(std::span<const std::byte> index) {
  if (index.size() < kept_record_bytes) return std::nullopt;
  const auto head = raw_at(index, 0);
  if (!head || head->words[0] != kept_magic) return std::nullopt;
  KeptRecords kept{.place_bytes = head->words[1], .records = {}};
  const bool is_size = kept.place_bytes > 0 && kept.place_bytes % os_page_bytes == 0 &&
                       kept.place_bytes <= kept_place_bytes_max;
  if (!is_size) return std::nullopt;
  for (uint64_t place = 0; kept_record_offset(place + 1) <= index.size(); ++place) {
    const auto raw = raw_at(index, kept_record_offset(place));
    if (!raw || raw->words[0] != place + 1) continue;
    kept.records.push_back({place, {raw->words[1], raw->words[2]}});
  }
  return kept;
}

}  // namespace weightpager::spill
