// Sizes: the grains that everything is measured in, and the way that people write sizes.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "pager/base/result.h"

namespace weightpager {

inline constexpr uint64_t KiB = 1024;
inline constexpr uint64_t MiB = 1024 * KiB;
inline constexpr uint64_t GiB = 1024 * MiB;

inline constexpr uint64_t second_ns = 1'000'000'000;

/// The size that one entry of an x86-64 page table can map; regions lie on this grid.
inline constexpr uint64_t huge_page_bytes = 2 * MiB;
/// The unit of residency is chosen per pager (policy/chunk_size.h): a power of two from here …
inline constexpr uint64_t chunk_bytes_min = 64 * KiB;
/// … to here, where a chunk is moved by moving one table entry.
inline constexpr uint64_t chunk_bytes_max = huge_page_bytes;
/// The operating system's page: the unit of munmap and of a file's last bytes.
inline constexpr uint64_t os_page_bytes = 4 * KiB;

constexpr bool is_chunk_size(uint64_t bytes) {
  return std::has_single_bit(bytes) && bytes >= chunk_bytes_min && bytes <= chunk_bytes_max;
}

constexpr uint64_t round_down(uint64_t value, uint64_t unit) { return value / unit * unit; }
constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Reads a size as people write it: `8GiB`, `512MiB`, `64KiB`, `512M`, `8G`, `4096` (bytes), also
/// `1.5GiB`. K, M, G and T are powers of 1024. Decimal units (`8GB`), unknown units, signs,
/// trailing text and overflow are refused with examples; `what` names the flag in the message
/// ("--window").
Result<uint64_t> parse_size(std::string_view text, std::string_view what);

/// `1.5 GiB`, `512.0 MiB`, `12 B`: at most one decimal, for summaries.
std::string format_size(uint64_t bytes);

}  // namespace weightpager
