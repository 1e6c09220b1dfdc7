// Plans of one small network: what comes through stays within its budget, and is all of the
// network.
#include <string_view>

#include "pager/base/assert.h"
#include "runtime/network/parser.h"
#include "runtime/plan/plan_file.h"

namespace network = weightpager::network;
namespace plan = weightpager::plan;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t length_bytes) {
  static const network::Network small =
      network::parse_network(
          "[net]\nwidth=16\nheight=16\nchannels=3\n"
          "[convolutional]\nfilters=64\nsize=3\nstride=1\npad=1\nactivation=relu\n"
          "[maxpool]\nsize=2\nstride=2\n"
          "[convolutional]\nfilters=64\nsize=1\nstride=1\npad=0\nactivation=linear\n",
          "net.cfg")
          .value();
  const std::string_view text(reinterpret_cast<const char*>(data), length_bytes);
  const auto file = plan::parse_plan(text, small, "plan");
  if (!file) {
    WP_ASSERT(file.error().message.starts_with("plan"));
    return 0;
  }
  const plan::JointPlan& it = file->plan;
  WP_ASSERT(it.memory_bytes() <= file->budget_bytes);
  WP_ASSERT(it.choices.size() == small.layers.size());
  WP_ASSERT(it.kernel_ns.size() == it.pieces.size() && it.is_pinned.size() == it.pieces.size());
  WP_ASSERT(it.pieces.front().layer == 0 && it.pieces.back().layer + 1 == small.layers.size());
  WP_ASSERT(plan::parse_plan(plan::plan_text(*file, small, "net.cfg"), small, "plan").has_value());
  return 0;
}
