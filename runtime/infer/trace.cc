// See trace.h.
#include "runtime/infer/trace.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace weightpager::infer {
namespace {

using network::Network;
using network::Piece;
using nlohmann::ordered_json;
using pipeline::Span;
using pipeline::UnitTimes;

struct Lane {
  const char* name;
  Span UnitTimes::*span;
};
// Reads overlap each other, so they are shown as such; the other lanes do one thing at a time.
constexpr Lane lanes[] = {
    {"read", &UnitTimes::read}, {"copy", &UnitTimes::copy}, {"kernel", &UnitTimes::kernel}};

std::string describe(const Network& network, const Piece& piece) {
  const network::Layer& layer = network.layers[piece.layer];
  const std::string text =
      fmt::format("{} {}", piece.layer, network::section_name(layer.operation));
  const bool is_whole = piece.first_channel == 0 &&
                        (piece.end_channel == 0 || piece.end_channel == layer.output.channels);
  if (is_whole) return text;
  return fmt::format("{}, channels {} to {}", text, piece.first_channel, piece.end_channel);
}

ordered_json name_of(const char* what, size_t process, size_t thread, const std::string& name) {
  return {
      {"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

// In microseconds.
double after(uint64_t time_ns, uint64_t start_ns) {
  return (static_cast<double>(time_ns) - static_cast<double>(start_ns)) / 1e3;
}

void add_read(ordered_json& events, const ordered_json& event, const Span& span, size_t unit,
              uint64_t start_ns) {
  ordered_json begin = event;
  begin["ph"] = "b";
  begin["id"] = unit;
  begin["ts"] = after(span.start_ns, start_ns);
  ordered_json end = event;
  end["ph"] = "e";
  end["id"] = unit;
  end["ts"] = after(span.finish_ns, start_ns);
  events.push_back(std::move(begin));
  events.push_back(std::move(end));
}

}  // namespace

std::string chrome_trace(const Network& network, std::span<const TracedInference> inferences) {
  ordered_json events = ordered_json::array();
  for (size_t process = 0; process < inferences.size(); ++process) {
    const TracedInference& it = inferences[process];
    events.push_back(name_of("process_name", process, 0, it.name));
    for (size_t lane = 0; lane < std::size(lanes); ++lane) {
      events.push_back(name_of("thread_name", process, lane, lanes[lane].name));
      for (size_t unit = 0; unit < it.pieces.size(); ++unit) {
        const Span& span = it.times.units[unit].*lanes[lane].span;
        if (span.finish_ns == 0) continue;
        ordered_json event = {{"name", describe(network, it.pieces[unit])},
                              {"cat", lanes[lane].name},
                              {"pid", process},
                              {"tid", lane}};
        if (lanes[lane].span == &UnitTimes::read) {
          add_read(events, event, span, unit, it.times.start_ns);
          continue;
        }
        event["ph"] = "X";
        event["ts"] = after(span.start_ns, it.times.start_ns);
        event["dur"] = after(span.finish_ns, span.start_ns);
        events.push_back(std::move(event));
      }
    }
  }
  return ordered_json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump() + "\n";
}

}  // namespace weightpager::infer
