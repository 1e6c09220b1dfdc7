// Lines that clients of the control socket send.
#include <cstdint>
#include <string>
#include <string_view>

#include "pager/base/assert.h"
#include "pager/control/layer_list.h"
#include "pager/control/request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t length_bytes) {
  using namespace weightpager::control;
  const std::string_view line(reinterpret_cast<const char*>(data), length_bytes);
  const auto request = parse_request(line);
  if (!request) {
    WP_ASSERT(!request.error().message.empty());
    return 0;
  }
  for (const char* key : {"window", "pin", "model", "first"}) {
    const auto text = request->text(key);
    const auto number = request->number(key);
    // What is there is of one kind at most.
    WP_ASSERT(!(text && *text && number && *number));
    if (!text || !*text) continue;
    const auto layers = parse_layers(**text, 40, key);
    WP_ASSERT(!layers || layers->empty() || layers->back() < 40);
  }
  return 0;
}
