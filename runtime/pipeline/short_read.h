// What to say of a read that brought fewer bytes than its unit needs.
#pragma once

#include <string>

#include "pager/base/result.h"
#include "pager/io/reader.h"
#include "runtime/pipeline/executor.h"

namespace weightpager::pipeline {

inline bool is_short(const UnitBytes& wanted, const io::Completion& read) {
  return read.length_bytes < wanted.needed_bytes;
}

/// Of one that is short: the disk failed, or the file is no longer what it was.
Error short_read(const std::string& file_name, const UnitBytes& wanted, const io::Completion& read);

}  // namespace weightpager::pipeline
