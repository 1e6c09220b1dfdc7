// A loop asks, paints, and waits for a key. A rate is the difference between two looks, divided by
// the difference of the process's clock. At the first look, rates are averages since the process
// mapped its first model.
#include "tools/commands/top/top.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "pager/base/units.h"
#include "tools/arguments/number_argument.h"
#include "tools/commands/top/screen.h"
#include "tools/commands/top/top_frame.h"
#include "tools/live/live_process.h"
#include "tools/live/residency.h"

namespace weightpager::tools {

Command top_description() {
  return {.name = "weightpager top",
          .purpose =
              "Shows a live pager on the whole screen, until it ends: the window, where the\n"
              "engine is in the model, what is read and waited for, layer by layer. Without\n"
              "a terminal it prints one look as text.\n",
          .usage = "  weightpager top PID [-I 1s] [-n N]\n",
          .options = {{'I', "interval", "TIME", "time between two looks: 1s (default), 250ms"},
                      {'n', "count", "N", "end after N looks"}},
          .examples =
              "  weightpager top 4711\n"
              "  weightpager top 4711 -I 250ms\n"
              "  weightpager top 4711 | cat\n"
              "Keys: q quit, h help, space pause, s sort rows, + and - change the window\n",
          .environment =
              "  NO_COLOR  if set and not empty, no colours\n"
              "  TERM      if dumb, works as without a terminal\n"
              "  LC_ALL, LC_CTYPE, LANG\n"
              "            UTF-8: bars of blocks instead of letters\n",
          .exit_status = live_exit_status,
          .operands = Operands::pagers};
}

namespace {

using Json = control::Client::Json;
using Clock = std::chrono::steady_clock;

constexpr size_t history_max = 512;
constexpr size_t top_models_max = 16;
constexpr size_t top_blocks_max = 64;
constexpr uint64_t top_interval_ns_min = 50'000'000;
// A key changes the window by one of so many parts.
constexpr uint64_t window_parts = 8;

/// What the engine's own memory holds; nothing where none is served.
std::optional<HeldMemory> memory_of(const Json& stat) {
  const Json memory = stat.value("memory", Json());
  if (memory.is_null()) return std::nullopt;
  const auto number = [&](const char* key) { return memory.at(key).get<uint64_t>(); };
  return HeldMemory{number("blocks"), number("size_bytes"), number("written_bytes"),
                    number("lazy_bytes"), number("zero_bytes")};
}

struct TopOptions {
  std::chrono::nanoseconds interval = std::chrono::seconds(1);
  uint32_t looks_max = UINT32_MAX;
};

/// Watches a live pager, look by look.
class Watch {
 public:
  explicit Watch(control::Client client) : client_(std::move(client)) {
    view_.process_id = client_.process_id();
  }

  Status look();
  /// Changes the window to `parts` eighths of its size. The view's message tells the result.
  Status change_window(uint64_t parts);
  TopView& view() { return view_; }

 private:
  Status look_at_rows(const Json& hello, const Json& stat, double seconds);
  void keep(std::vector<double>& history, double value);

  control::Client client_;
  TopView view_;
  Json former_;
  std::vector<Residency> former_rows_;
};

void Watch::keep(std::vector<double>& history, double value) {
  if (history.size() == history_max) history.erase(history.begin());
  history.push_back(value);
}

Status Watch::look() {
  const auto hello = client_.ask(request_of("hello"));
  if (!hello) return tl::make_unexpected(hello.error());
  if (auto has_pager = expect_pager(*hello); !has_pager) return has_pager;
  const auto stat = client_.ask(request_of("stat"));
  if (!stat) return tl::make_unexpected(stat.error());
  const auto number = [&](const char* key) { return stat->at(key).get<uint64_t>(); };
  const uint64_t since_ns =
      former_.is_null() ? number("started_ns") : former_.at("time_ns").get<uint64_t>();
  const double seconds = std::max(static_cast<double>(number("time_ns") - since_ns) / 1e9, 1e-9);
  const auto rate = [&](const char* key) {
    const uint64_t before = former_.is_null() ? 0 : former_.at(key).get<uint64_t>();
    return static_cast<double>(number(key) - before) / seconds;
  };
  view_.policy = stat->at("policy").get<std::string>();
  view_.window_bytes = number("window_bytes");
  view_.resident_bytes = number("resident_bytes");
  view_.pinned_bytes = number("pinned_bytes");
  view_.ring_bytes = number("ring_bytes");
  view_.passes = number("passes");
  view_.read_bytes = number("read_bytes");
  view_.read_bytes_per_s = rate("read_bytes");
  view_.touches.demand_per_s = rate("faults_demand");
  view_.touches.late_per_s = rate("faults_late");
  view_.touches.tripwire_per_s = rate("faults_tripwire");
  view_.touches.hidden_per_s = rate("prefetch_hidden");
  view_.stall_share = std::min(rate("stall_ns") / 1e9, 1.0);
  keep(view_.read_history, view_.read_bytes_per_s);
  keep(view_.stall_history, view_.stall_share);
  if (auto rows = look_at_rows(*hello, *stat, seconds); !rows) return rows;
  former_ = *stat;
  return {};
}

// Rows are the layers of a single file, or the files if there are several, and the largest blocks
// of the engine's own memory. Also finds the layer that the engine is in.
Status Watch::look_at_rows(const Json& hello, const Json& stat, double seconds) {
  view_.command = hello.at("command").get<std::string>();
  view_.mapper = hello.at("mapper").get<std::string>();
  const Json& models = hello.at("models");
  const size_t model_count = std::min(models.size(), top_models_max);
  const auto is_memory = [](const Json& model) { return model.value("kind", "file") == "memory"; };
  const auto files = std::count_if(models.begin(), models.end(), std::not_fn(is_memory));
  std::vector<Residency> rows;
  for (size_t model = 0; model < model_count; ++model) {
    auto layers = ask_residency(client_, model, rows_of(models[model], "layer"));
    if (!layers) return tl::make_unexpected(layers.error());
    if (is_memory(models[model]) || (files == 1 && model_count == 1)) {
      layers->resize(
          std::min(layers->size(), is_memory(models[model]) ? top_blocks_max : SIZE_MAX));
      rows.insert(rows.end(), layers->begin(), layers->end());
      continue;
    }
    const auto path = models[model].at("name").get<std::string>();
    Residency all{.name = path.substr(path.rfind('/') + 1)};
    for (const Residency& layer : *layers) all.add(layer);
    rows.push_back(std::move(all));
  }
  const bool has_memory = static_cast<size_t>(files) < models.size();
  view_.rows_are = has_memory         ? (files == 0 ? "block holds" : "model, block holds")
                   : model_count == 1 ? "layer"
                                      : "model";
  view_.memory = memory_of(stat);
  view_.rows.clear();
  const bool is_comparable = former_rows_.size() == rows.size();
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint64_t before_ns =
        is_comparable ? std::min(former_rows_[i].stall_ns, rows[i].stall_ns) : 0;
    const double stalled_s = static_cast<double>(rows[i].stall_ns - before_ns) / 1e9;
    view_.rows.push_back({rows[i], std::nullopt});
    if (!rows[i].is_block()) view_.rows.back().stall_share = std::min(stalled_s / seconds, 1.0);
  }
  former_rows_ = std::move(rows);
  const Json& cursor = stat.at("cursor");
  view_.layers = cursor.is_null() ? 0 : cursor.at("layers").get<uint64_t>();
  view_.layer = cursor.is_null() ? 0 : cursor.at("layer").get<uint64_t>();
  view_.layer_name = cursor.is_null() ? "" : cursor.at("name").get<std::string>();
  return {};
}

Status Watch::change_window(uint64_t parts) {
  const auto hello = client_.ask(request_of("hello"));
  if (!hello) return tl::make_unexpected(hello.error());
  const uint64_t wanted =
      std::clamp(round_down(view_.window_bytes / window_parts * parts, chunk_bytes_max),
                 hello->at("window_bytes_min").get<uint64_t>(),
                 std::max(hello->at("window_bytes_min").get<uint64_t>(),
                          hello->at("window_bytes_max").get<uint64_t>()));
  Json request = request_of("set");
  request["window"] = std::to_string(wanted);
  const auto answer = client_.ask(request);
  if (!answer && answer.error().error_number == control::process_ended) {
    return tl::make_unexpected(answer.error());
  }
  if (!answer) {
    view_.message = answer.error().message;
    return {};
  }
  view_.window_bytes = answer->at("new").get<uint64_t>();
  view_.message = fmt::format("window: {} -> {}", format_size(answer->at("old").get<uint64_t>()),
                              format_size(view_.window_bytes));
  return {};
}

std::string plain_text(const std::vector<Line>& lines) {
  std::string text;
  for (const Line& line : lines) {
    std::string all;
    for (const Text& it : line) all += it.text;
    all.erase(all.find_last_not_of(' ') + 1);
    text += all + "\n";
  }
  return text;
}

/// Does what a key asks for; false: the user wants to quit.
Result<bool> obey(char key, Watch& watch) {
  TopView& view = watch.view();
  view.message.clear();
  if (std::exchange(view.shows_help, false)) return true;
  switch (key) {
    case 'q':
      return false;
    case 'h':
    case '?':
      view.shows_help = true;
      return true;
    case ' ':
      view.is_paused = !view.is_paused;
      return true;
    case 's':
      view.order =
          static_cast<RowOrder>((static_cast<size_t>(view.order) + 1) % std::size(order_names));
      return true;
    case '+':
    case '-': {
      const auto changed = watch.change_window(key == '+' ? window_parts + 1 : window_parts - 1);
      if (!changed) return tl::make_unexpected(changed.error());
      return true;
    }
    default:
      return true;
  }
}

Status show_on(Screen& screen, Watch& watch, const TopOptions& options) {
  auto next_look = Clock::now();
  for (uint32_t looks = 0;;) {
    if (Clock::now() >= next_look) {
      if (looks == options.looks_max) return {};
      ++looks;
      next_look = Clock::now() + options.interval;
      if (!watch.view().is_paused) {
        if (auto looked = watch.look(); !looked) return looked;
      }
    }
    screen.show(top_frame(watch.view(), screen.size(), screen.is_unicode()));
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next_look - Clock::now());
    const auto key = screen.key(static_cast<int>(std::max<int64_t>(wait.count(), 0)));
    if (!key) continue;
    const auto goes_on = obey(*key, watch);
    if (!goes_on) return tl::make_unexpected(goes_on.error());
    if (!*goes_on) return {};
  }
}

Result<TopOptions> read_top_options(const Arguments& arguments) {
  TopOptions options;
  if (const auto text = arguments.value("interval")) {
    const auto interval_ns = parse_duration(*text, "--interval");
    if (!interval_ns) return tl::make_unexpected(interval_ns.error());
    if (*interval_ns < top_interval_ns_min) return fail("--interval: less than 50ms");
    options.interval = std::chrono::nanoseconds(*interval_ns);
  }
  if (const auto text = arguments.value("count")) {
    const auto looks = parse_count(*text, "--count", UINT32_MAX);
    if (!looks) return tl::make_unexpected(looks.error());
    options.looks_max = *looks;
  }
  return options;
}

int top(control::Client client, const TopOptions& options) {
  Watch watch(std::move(client));
  // An error of the first look is printed before the screen is taken.
  if (auto looked = watch.look(); !looked) return live_failure(looked.error());
  Status ended;
  if (const auto screen = Screen::open()) {
    ended = show_on(*screen, watch, options);
  } else {
    print(stdout, plain_text(top_frame(watch.view(), {}, false, true)));
  }
  return ended ? exit_success : live_failure(ended.error());
}

}  // namespace

int top_command(const std::vector<std::string>& words) {
  const Command command = top_description();
  return run_live_command(command, words, [&](const Arguments& arguments) -> int {
    const auto options = read_top_options(arguments);
    if (!options) return misuse(options.error());
    auto client = connect_to_operand(command, arguments);
    return client ? top(std::move(*client), *options) : client.error();
  });
}

}  // namespace weightpager::tools
