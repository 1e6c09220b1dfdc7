// Reads floats from a file, a few or a whole layer's. HeaderReader would read hundreds of KiB for
// the few, and hold the many twice.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"

namespace weightpager::network {

/// Several threads may use one reader at a time. Failures are errors that name the file and the
/// byte.
class FloatReader {
 public:
  explicit FloatReader(const std::string& path);
  Result<std::vector<float>> read(uint64_t offset_bytes, uint64_t count) const;

 private:
  std::string path_;
  OwnedFd fd_;
};

}  // namespace weightpager::network
