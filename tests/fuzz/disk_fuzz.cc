// Disks: whatever comes through is one that the simulator can work with.
#include <cmath>
#include <string_view>

#include "pager/base/assert.h"
#include "tools/formats/disk_file.h"

namespace tools = weightpager::tools;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t length_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), length_bytes);
  const auto machine = tools::parse_machine(text, "disk");
  if (!machine) {
    WP_ASSERT(machine.error().message.starts_with("disk: "));
    return 0;
  }
  WP_ASSERT(machine->disk.bytes_per_s >= 1 && machine->disk.bytes_per_s <= 1e15);
  WP_ASSERT(machine->disk.latency_ns <= 10'000'000'000);
  WP_ASSERT(machine->disk.queue_depth >= 1 && machine->disk.queue_depth <= 4096);
  WP_ASSERT(machine->disk.jitter >= 0 && machine->disk.jitter <= 1e6);
  // A name may be of any bytes, of which JSON has not all.
  WP_ASSERT(tools::parse_machine(tools::machine_json(*machine), "disk").has_value());
  return 0;
}
