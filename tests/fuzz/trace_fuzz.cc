// Traces: the input is what lies behind a head whose length and checksum are right.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <vector>

#include "pager/base/assert.h"
#include "pager/simulate/trace_format.h"

namespace simulate = weightpager::simulate;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t length_bytes) {
  constexpr size_t head_bytes = 32;
  std::vector<std::byte> bytes = simulate::encode({});
  bytes.resize(head_bytes + length_bytes);
  const uint64_t length = length_bytes;
  const uint64_t checksum = XXH3_64bits(data, length_bytes);
  std::memcpy(bytes.data() + 16, &length, sizeof length);
  std::memcpy(bytes.data() + 24, &checksum, sizeof checksum);
  if (length_bytes > 0) std::memcpy(bytes.data() + head_bytes, data, length_bytes);
  const auto trace = simulate::decode(bytes, "trace");
  if (trace) {
    WP_ASSERT(simulate::check(*trace, "trace").has_value());
  } else {
    WP_ASSERT(trace.error().message.starts_with("trace"));
  }
  return 0;
}
