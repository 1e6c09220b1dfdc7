// Reads floats from a file, here a few and there a layer's: where HeaderReader would read hundreds
// of KiB for the few, and hold the many twice.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"

namespace weightpager::network {

/// Threads may share it.
class FloatReader {
 public:
  explicit FloatReader(const std::string& path);
  Result<std::vector<float>> read(uint64_t offset_bytes, uint64_t count) const;

 private:
  std::string path_;
  OwnedFd fd_;
};

}  // namespace weightpager::network
