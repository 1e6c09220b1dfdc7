// A unit's read: the options of a reader for it, the request, and the errors if the read brings too
// few bytes or the file was changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "pager/base/result.h"
#include "pager/io/reader.h"
#include "runtime/pipeline/executor.h"

namespace weightpager::pipeline {

/// Options for a reader that can read each of these units from one file, whose device reads at most
/// `device_read_bytes` at once (io::device_limits).
io::ReaderOptions reader_options(std::span<const UnitBytes> units, uint32_t device_read_bytes);

inline io::Read read_of(UnitNumber number, const UnitBytes& unit, int fd, std::byte* buffer) {
  return {.tag = number,
          .fd = fd,
          .offset_bytes = unit.offset_bytes,
          .length_bytes = static_cast<uint32_t>(unit.length_bytes),
          .buffer = buffer};
}

inline bool is_short(const UnitBytes& wanted, const io::Completion& read) {
  return read.length_bytes < wanted.needed_bytes;
}

/// The error for a short read: the disk failed, or the file was changed.
Error short_read(const std::string& file_name, const UnitBytes& wanted, const io::Completion& read);

/// The error for a file that was changed since it was opened.
Error changed_file(const std::string& file_name);

}  // namespace weightpager::pipeline
