#include "runtime/pipeline/unit_read.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace weightpager::pipeline {

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

}  // namespace weightpager::pipeline
