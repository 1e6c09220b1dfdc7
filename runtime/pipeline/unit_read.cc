#include "runtime/pipeline/unit_read.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pager/base/units.h"
#include "runtime/pipeline/read_line.h"

namespace weightpager::pipeline {

io::ReaderOptions reader_options(std::span<const UnitBytes> units, uint32_t device_read_bytes) {
  uint64_t largest_bytes = os_page_bytes;
  for (const UnitBytes& it : units) largest_bytes = std::max(largest_bytes, it.length_bytes);
  return {.reads_max = ReadLine::reads_max,
          .read_bytes_max = static_cast<uint32_t>(largest_bytes),
          .device_read_bytes = device_read_bytes};
}

Error short_read(const std::string& file_name, const UnitBytes& wanted,
                 const io::Completion& read) {
  const uint64_t at_bytes = wanted.offset_bytes + read.length_bytes;
  if (read.error_number != 0) {
    return {fmt::format("{}, byte {}: {}", file_name, at_bytes, std::strerror(read.error_number)),
            "the disk or its connection failed: `dmesg` may say more; copy the file to another "
            "disk, or fetch it anew",
            read.error_number};
  }
  return {fmt::format("{} ends at byte {}, while layers are read up to byte {}: the file was cut "
                      "off since it was opened",
                      file_name, at_bytes, wanted.offset_bytes + wanted.needed_bytes),
          "start again with the whole file", ENODATA};
}

Error changed_file(const std::string& file_name) {
  return {file_name + ": was changed while it was in use, so its layers may be of two versions",
          "open it again; to change it while it is used, write a new file and rename it over this "
          "one",
          ESTALE};
}

}  // namespace weightpager::pipeline
