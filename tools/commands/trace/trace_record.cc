// The process keeps its last events in a ring, which is emptied several times a second. Events that
// found no room in the ring are counted, and the number is shown.
#include "tools/commands/trace/trace_record.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "pager/base/units.h"
#include "pager/telemetry/chrome_trace.h"
#include "pager/telemetry/telemetry.h"
#include "tools/arguments/number_argument.h"
#include "tools/live/live_process.h"
#include "tools/report/report_file.h"
#include "tools/terminal/ending_signals.h"

namespace weightpager::tools {
namespace {

using telemetry::ChromeTrace;
using telemetry::TraceLane;
using Json = control::Client::Json;

constexpr int look_ms = 20;

}  // namespace

Command trace_record_description() {
  return {
      .name = "weightpager trace record",
      .purpose =
          "Records what a live pager does, as Chrome's trace JSON: lanes for layers, for each\n"
          "engine thread that waits, for reads, maps, evictions and holds. ui.perfetto.dev and\n"
          "chrome://tracing show it.\n",
      .usage = "  weightpager trace record PID -o FILE [--for 5s]\n",
      .options = {{'o', "output", "FILE", "where to write it"},
                  {0, "for", "TIME", "how long: 5s (default), 500ms"}},
      .examples = "  weightpager trace record 4711 -o trace.json --for 2s\n",
      .exit_status = live_exit_status,
      .operands = Operands::pagers};
}

namespace {

/// Lanes before those of threads, which are numbered by their threads.
enum Lane : uint64_t { layers, reads, maps, evictions, holds };
constexpr std::pair<Lane, const char*> lanes[] = {{layers, "layers"},
                                                  {reads, "reads"},
                                                  {maps, "maps"},
                                                  {evictions, "evictions"},
                                                  {holds, "holds"}};

/// Turns events, which come in order, into spans.
class Recording {
 public:
  Recording(pid_t process_id, const std::string& command, int64_t started_ns)
      : process_(static_cast<uint64_t>(process_id)), started_ns_(started_ns) {
    trace_.name_process(process_, fmt::format("{} ({})", command, process_id));
    for (const auto& [lane, name] : lanes) trace_.name_lane(lane_of(lane), name);
  }

  /// Sets the names of a model's layers.
  void name_layers(uint64_t model, std::vector<std::string> names) {
    names_[model] = std::move(names);
  }

  // The fields are those of docs/reference/control.md: time, kind, model, layer, chunk, count,
  // thread, state.
  void add(const Json& event) {
    ++events_;
    last_ns_ = event.at(0).get<int64_t>() - started_ns_;
    if (event.size() < 6) return;  // its file is gone
    const auto kind = event.at(1).get<std::string>();
    const auto model = event.at(2).get<uint64_t>();
    const auto chunk = event.at(4).get<uint64_t>();
    const auto count = event.at(5).get<uint64_t>();
    const std::string layer = name_of(model, event.at(3));
    const std::string what = fmt::format(
        "{}, chunk {}{}", layer, chunk, count == 1 ? "" : fmt::format(" to {}", chunk + count - 1));
    if (kind == "touch") {
      follow(layer);
      waits_[{model, chunk}] = {last_ns_, event.at(6).get<uint64_t>(),
                                fmt::format("{}, {}", what, event.at(7).get<std::string>())};
    } else if (kind == "served") {
      end(waits_, {model, chunk}, [&](const Begun& it) {
        name_thread(it.thread);
        trace_.add_span({process_, it.thread, "wait"}, it.what, it.start_ns, last_ns_);
      });
    } else if (kind == "read") {
      reads_[{model, chunk}] = {last_ns_, 0, what};
    } else if (kind == "arrive") {
      end(reads_, {model, chunk}, [&](const Begun& it) {
        trace_.add_overlapping(lane_of(reads), it.what, ++reads_seen_, it.start_ns, last_ns_);
      });
    } else {
      trace_.add_instant(lane_of(kind == "map"     ? maps
                                 : kind == "evict" ? evictions
                                                   : holds),
                         what, last_ns_);
    }
  }

  uint64_t events() const { return events_; }
  std::string json() {
    follow("");
    return trace_.json();
  }

 private:
  using Place = std::pair<uint64_t, uint64_t>;  // model, chunk
  struct Begun {
    int64_t start_ns = 0;
    uint64_t thread = 0;
    std::string what;
  };

  /// A span that began before the recording has no beginning, and is left out.
  template <typename Act>
  static void end(std::map<Place, Begun>& begun, const Place& place, Act act) {
    const auto found = begun.find(place);
    if (found == begun.end()) return;
    act(found->second);
    begun.erase(found);
  }

  TraceLane lane_of(Lane lane) const { return {process_, lane, lanes[lane].second}; }

  std::string name_of(uint64_t model, const Json& layer) const {
    const auto names = names_.find(model);
    const bool is_known = names != names_.end() && layer.is_number();
    if (!is_known || layer.get<uint64_t>() >= names->second.size()) return "no layer";
    return names->second[layer.get<uint64_t>()];
  }

  /// Notes that the engine is in that layer.
  void follow(const std::string& layer) {
    if (layer == layer_) return;
    if (!layer_.empty()) trace_.add_span(lane_of(layers), layer_, layer_since_ns_, last_ns_);
    layer_ = layer;
    layer_since_ns_ = last_ns_;
  }

  void name_thread(uint64_t thread) {
    if (!named_.emplace(thread, true).second) return;
    trace_.name_lane({process_, thread, "wait"},
                     thread == 0 ? "waits" : fmt::format("thread {} waits", thread));
  }

  ChromeTrace trace_;
  const uint64_t process_;
  const int64_t started_ns_;
  int64_t last_ns_ = 0;
  uint64_t events_ = 0;
  uint64_t reads_seen_ = 0;
  std::map<uint64_t, std::vector<std::string>> names_;
  std::map<uint64_t, bool> named_;
  std::map<Place, Begun> waits_;
  std::map<Place, Begun> reads_;
  std::string layer_;
  int64_t layer_since_ns_ = 0;
};

Result<std::vector<std::string>> layer_names(control::Client& client, uint64_t model) {
  std::vector<std::string> names;
  for (uint64_t total = 1; names.size() < total;) {
    Json request = request_of("residency");
    request["model"] = model;
    request["first"] = names.size();
    const auto answer = client.ask(request);
    if (!answer) return tl::make_unexpected(answer.error());
    total = answer->at("total").get<uint64_t>();
    if (answer->at("rows").empty()) break;
    for (const Json& row : answer->at("rows")) names.push_back(row.at("name").get<std::string>());
  }
  return names;
}

/// Takes the events that are there; returns how many were lost since the beginning.
Result<uint64_t> take_events(control::Client& client, const Json& trace, Recording& recording) {
  for (;;) {
    Json request = request_of("trace");
    request["do"] = "take";
    request["trace"] = trace;
    const auto answer = client.ask(request);
    if (!answer) return tl::make_unexpected(answer.error());
    for (const Json& event : answer->at("events")) recording.add(event);
    if (answer->at("events").empty()) return answer->at("lost").get<uint64_t>();
  }
}

/// Records until the time is up, the user stops it, or the process ends.
Result<uint64_t> follow(control::Client& client, const Json& trace, uint64_t duration_ns,
                        const OwnedFd& signals, Recording& recording) {
  const uint64_t end_ns = telemetry::monotonic_ns() + duration_ns;
  for (bool is_over = false;;) {
    auto lost = take_events(client, trace, recording);
    if (!lost || is_over) return lost;
    pollfd watched = {signals.get(), POLLIN, 0};
    is_over = poll(&watched, 1, look_ms) > 0 || telemetry::monotonic_ns() >= end_ns;
  }
}

int record(control::Client& client, uint64_t duration_ns, ReportFile& file) {
  const auto signals = ending_signals();
  if (!signals) return failure(signals.error());
  const auto hello = client.ask(request_of("hello"));
  if (!hello) return live_failure(hello.error());
  Json start = request_of("trace");
  start["do"] = "start";
  const auto started = client.ask(start);
  if (!started) return live_failure(started.error());
  Recording recording(client.process_id(), hello->at("command").get<std::string>(),
                      started->at("time_ns").get<int64_t>());
  for (uint64_t model = 0; model < hello->at("models").size(); ++model) {
    auto names = layer_names(client, model);
    if (!names) return live_failure(names.error());
    recording.name_layers(model, std::move(*names));
  }
  const auto lost = follow(client, started->at("trace"), duration_ns, *signals, recording);
  if (lost) {
    start["do"] = "stop";
    start["trace"] = started->at("trace");
    if (const auto stopped = client.ask(start); !stopped) print_error(stopped.error());
  }
  // The events until the end of the process are worth having, too.
  const Status written = file.commit(recording.json());
  if (!written) return failure(written.error());
  print(stderr, fmt::format("weightpager: {} events{}\n", recording.events(),
                            lost.value_or(0) == 0 ? "" : fmt::format(", {} lost", *lost)));
  return lost ? exit_success : live_failure(lost.error());
}

}  // namespace

int trace_record_command(const std::vector<std::string>& words) {
  const Command command = trace_record_description();
  return run_live_command(command, words, [&](const Arguments& arguments) -> int {
    const auto duration_ns = parse_duration(arguments.value("for").value_or("5s"), "--for");
    if (!duration_ns) return misuse(duration_ns.error());
    const auto path = arguments.value("output");
    if (!path) return misuse({"--output is missing", "say where to write: -o FILE"});
    auto client = connect_to_operand(command, arguments);
    if (!client) return client.error();
    auto file = ReportFile::create(*path, "--output");
    if (!file) return failure(file.error());
    return record(*client, *duration_ns, *file);
  });
}

}  // namespace weightpager::tools
