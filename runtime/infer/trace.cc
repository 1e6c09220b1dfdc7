// See trace.h.
#include "runtime/infer/trace.h"

#include <fmt/format.h>

#include "pager/telemetry/chrome_trace.h"

namespace weightpager::infer {
namespace {

using network::Network;
using network::Piece;
using pipeline::TimeSpan;
using pipeline::UnitTimes;
using telemetry::ChromeTrace;
using telemetry::TraceLane;

struct Lane {
  const char* name;
  TimeSpan UnitTimes::*span;
};
// Reads overlap each other and are shown that way; the other lanes do one thing at a time.
constexpr Lane lanes[] = {
    {"read", &UnitTimes::read}, {"copy", &UnitTimes::copy}, {"kernel", &UnitTimes::kernel}};

std::string describe(const Network& network, std::span<const Piece> pieces) {
  if (pieces.size() > 1)
    return fmt::format("layers {} to {}", pieces.front().layer, pieces.back().layer);
  const Piece& piece = pieces.front();
  const network::Layer& layer = network.layers[piece.layer];
  const std::string text =
      fmt::format("{} {}", piece.layer, network::section_name(layer.operation));
  const bool is_whole = piece.first_channel == 0 &&
                        (piece.end_channel == 0 || piece.end_channel == layer.output.channels);
  if (is_whole) return text;
  return fmt::format("{}, channels {} to {}", text, piece.first_channel, piece.end_channel);
}

}  // namespace

std::string chrome_trace(const Network& network, std::span<const TracedInference> inferences) {
  ChromeTrace trace;
  for (size_t process = 0; process < inferences.size(); ++process) {
    const TracedInference& it = inferences[process];
    const auto after_start = [&](uint64_t time_ns) {
      return static_cast<int64_t>(time_ns) - static_cast<int64_t>(it.times.start_ns);
    };
    trace.name_process(process, it.name);
    for (size_t thread = 0; thread < std::size(lanes); ++thread) {
      const TraceLane lane = {process, thread, lanes[thread].name};
      trace.name_lane(lane, lanes[thread].name);
      for (size_t unit = 0; unit < it.window.units.size(); ++unit) {
        const TimeSpan& span = it.times.units[unit].*lanes[thread].span;
        if (span.finish_ns == 0) continue;
        const std::string name = describe(network, it.window.pieces_of(unit));
        const int64_t start_ns = after_start(span.start_ns);
        const int64_t finish_ns = after_start(span.finish_ns);
        if (lanes[thread].span == &UnitTimes::read) {
          trace.add_overlapping(lane, name, unit, start_ns, finish_ns);
        } else {
          trace.add_span(lane, name, start_ns, finish_ns);
        }
      }
    }
  }
  return trace.json();
}

}  // namespace weightpager::infer
