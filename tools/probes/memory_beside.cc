#include "tools/probes/memory_beside.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "pager/base/text_lines.h"
#include "pager/base/units.h"

namespace weightpager::tools {
namespace {

constexpr std::string_view ring_name = "/memfd:weightpager ring";

uint64_t less(uint64_t all, uint64_t part) { return all - std::min(all, part); }

/// A mapping of the process.
struct Mapping {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string_view protection;
  std::string_view name;
  uint64_t resident_bytes = 0;

  bool is_anonymous() const { return name.empty(); }
  bool is_executable() const { return protection.find('x') != std::string_view::npos; }
  /// Whether it is the guard in front of a thread's stack.
  bool is_guard() const {
    return is_anonymous() && protection == "---p" && end - begin == os_page_bytes;
  }
};

uint64_t hex_number(std::string_view text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return number;
}

std::string_view take_word(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const std::string_view word = rest.substr(0, rest.find(' '));
  rest.remove_prefix(word.size());
  return word;
}

// "7f01-7f02 rw-p 00000000 00:00 0    [stack]"
Mapping mapping_in(std::string_view line) {
  Mapping mapping;
  const std::string_view range = take_word(line);
  const size_t dash = range.find('-');
  mapping.begin = hex_number(range.substr(0, dash));
  mapping.end = hex_number(range.substr(dash + 1));
  mapping.protection = take_word(line);
  for (int skipped = 0; skipped < 3; ++skipped) take_word(line);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  mapping.name = line;
  return mapping;
}

class Sorting {
 public:
  void add(const Mapping& it) {
    all_bytes_ += it.resident_bytes;
    const bool is_behind_guard = before_.is_guard() && before_.end == it.begin;
    if (it.name.starts_with(ring_name)) {
      ring_resident_bytes_ += it.resident_bytes;
      ring_mapped_bytes_ += it.end - it.begin;
    } else if (it.name.starts_with("anon_inode:[io_uring]")) {
      sorted_.reader_bytes += it.resident_bytes;
    } else if (it.name == "[stack]" || (it.is_anonymous() && is_behind_guard)) {
      sorted_.stacks_bytes += it.resident_bytes;
    } else if (it.is_anonymous() && it.is_executable()) {
      sorted_.kernels_bytes += it.resident_bytes;
    } else if (it.name.starts_with('/') || it.name.starts_with("[v")) {
      sorted_.program_bytes += it.resident_bytes;
    }
    before_ = it;
  }

  MemoryBeside beside(uint64_t known_bytes, uint64_t resident_bytes_max) const {
    MemoryBeside beside = sorted_;
    // Each ring is mapped twice, and its first mapping is resident as a whole.
    beside.counted_twice_bytes = less(ring_resident_bytes_, ring_mapped_bytes_ / 2);
    beside.passing_bytes = less(resident_bytes_max, all_bytes_);
    const uint64_t named_bytes = beside.all_bytes() - beside.passing_bytes;
    beside.heap_bytes = less(all_bytes_, known_bytes + named_bytes);
    return beside;
  }

 private:
  MemoryBeside sorted_;
  uint64_t all_bytes_ = 0;
  uint64_t ring_resident_bytes_ = 0;
  uint64_t ring_mapped_bytes_ = 0;
  Mapping before_;
};

}  // namespace

MemoryBeside memory_beside(std::string_view smaps, uint64_t known_bytes,
                           uint64_t resident_bytes_max) {
  Sorting sorting;
  Mapping mapping;
  while (!smaps.empty()) {
    const std::string_view line = take_line(smaps);
    const std::string_view word = line.substr(0, line.find(' '));
    // A line with a figure begins with "Name:"; the line that begins a mapping, with its range.
    if (!word.ends_with(':')) {
      mapping = mapping_in(line);
    } else if (word == "Rss:") {
      std::string_view rest = line.substr(word.size());
      const std::string_view number = take_word(rest);
      std::from_chars(number.data(), number.data() + number.size(), mapping.resident_bytes);
      mapping.resident_bytes *= KiB;
      sorting.add(mapping);
    }
  }
  return sorting.beside(known_bytes, resident_bytes_max);
}

MemoryBeside memory_beside(uint64_t known_bytes) {
  const uint64_t most_bytes = resident_bytes_max();
  std::ifstream file("/proc/self/smaps");
  std::ostringstream text;
  text << file.rdbuf();
  return memory_beside(text.view(), known_bytes, most_bytes);
}

uint64_t resident_bytes_max() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * KiB;
}

std::string describe(const MemoryBeside& beside) {
  return fmt::format(
      "program {}, compiled kernels {}, heap {}, stacks {}, reader {}, counted twice {}, gone "
      "again {}",
      format_size(beside.program_bytes), format_size(beside.kernels_bytes),
      format_size(beside.heap_bytes), format_size(beside.stacks_bytes),
      format_size(beside.reader_bytes), format_size(beside.counted_twice_bytes),
      format_size(beside.passing_bytes));
}

void add_fields(nlohmann::ordered_json& json, const MemoryBeside& beside) {
  json["program_bytes"] = beside.program_bytes;
  json["kernels_bytes"] = beside.kernels_bytes;
  json["heap_bytes"] = beside.heap_bytes;
  json["stacks_bytes"] = beside.stacks_bytes;
  json["reader_bytes"] = beside.reader_bytes;
  json["counted_twice_bytes"] = beside.counted_twice_bytes;
  json["passing_bytes"] = beside.passing_bytes;
}

}  // namespace weightpager::tools
