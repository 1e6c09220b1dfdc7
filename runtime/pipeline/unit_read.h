// A unit's read: what a reader must be able to do, what it is asked for, and what to say if that
// brought fewer bytes than the unit needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "pager/base/result.h"
#include "pager/io/reader.h"
#include "runtime/pipeline/executor.h"

namespace weightpager::pipeline {

/// For a reader of any of these, from one file of a device that reads so much at once
/// (io::device_limits).
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

/// Of one that is short: the disk failed, or the file is no longer what it was.
Error short_read(const std::string& file_name, const UnitBytes& wanted, const io::Completion& read);

/// Says that a file is no longer what it was when it was opened.
Error changed_file(const std::string& file_name);

}  // namespace weightpager::pipeline
