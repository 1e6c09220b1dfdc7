// safetensors files for tests: a header's JSON, as it stands, and data.
#pragma once

#include <cstdint>
#include <string>

namespace weightpager::model {

inline std::string safetensors_bytes(const std::string& header, uint64_t data_bytes) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header +
         std::string(data_bytes, 'd');
}

}  // namespace weightpager::model
