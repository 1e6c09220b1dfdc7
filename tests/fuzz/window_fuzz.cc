// Sizes and --window as people type them.
#include <string>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "tools/arguments/window_argument.h"

namespace {

constexpr uint64_t model_bytes = uint64_t{7} << 30;
const weightpager::MemoryLimit limit{uint64_t{16} << 30, "/proc/meminfo (MemTotal)"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t length_bytes) {
  const std::string text(reinterpret_cast<const char*>(data), length_bytes);
  const auto size = weightpager::parse_size(text, "--size");
  // What is taken begins with a digit and is no less than its whole number.
  if (size) {
    WP_ASSERT(text.front() >= '0' && text.front() <= '9');
    WP_ASSERT(*size >= std::stoull(text));
  }

  for (const uint64_t bytes : {uint64_t{0}, model_bytes}) {
    const auto window = weightpager::tools::parse_window(text, bytes, limit);
    if (!window) {
      WP_ASSERT(window.error().message.starts_with("--window"));
      continue;
    }
    WP_ASSERT(*window <= limit.bytes && *window >= (uint64_t{32} << 20));
    WP_ASSERT(text.back() == '%' || (size && *size == *window));
  }
  return 0;
}
