// A rate is the difference between two answers of the process, divided by the difference of its
// clock. The first row's rates are averages since the process mapped its first model.
#include "tools/commands/stat.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "pager/base/owned_fd.h"
#include "pager/base/units.h"
#include "tools/arguments/number_argument.h"
#include "tools/cli/cli.h"
#include "tools/live/live_process.h"
#include "tools/terminal/ending_signals.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools {
namespace {

using Json = control::Client::Json;

constexpr uint64_t interval_ns_min = 10'000'000;
constexpr int rows_below_header = 22;
constexpr size_t cursor_columns = 12;

}  // namespace

Command stat_description() {
  return {.name = "weightpager stat",
          .purpose =
              "Shows what a live pager does, one row a second, until it ends. The first row's\n"
              "figures are averages since its first model was mapped. For an engine that is\n"
              "attached to a server it shows the server; for networks, their windows.\n",
          .usage = "  weightpager stat PID [-I 1s] [-n N] [--json]\n",
          .options = {{'I', "interval", "TIME", "time between two rows: 1s (default), 100ms"},
                      {'n', "count", "N", "end after N rows"},
                      {0, "json", "", "print one JSON object for each row, with all counters"}},
          .examples =
              "  weightpager ps\n"
              "  weightpager stat 4711\n"
              "  weightpager stat 4711 -n 1 --json | jq .read_bytes\n"
              "Columns: memory in use and size of the window; bytes read; faults that waited\n"
              "for a whole read (demand), for the rest of one (late) or for microseconds (trip);\n"
              "chunks that were there before the engine came (hidden); share of the time with a\n"
              "thread waiting (stall); passes so far; the layer that was touched last. With\n"
              "run --spill, instead of trip and layer: bytes written to the spill file; the\n"
              "engine's large blocks, their number and size\n",
          .exit_status = live_exit_status,
          .operands = Operands::pagers};
}

namespace {

/// Whether memory of the engine's own is served, too: two columns are about that then.
bool has_memory(const Json& stat) { return !stat.value("memory", Json()).is_null(); }

void print_header(const Json& stat) {
  if (has_memory(stat)) {
    fmt::print("{:>8} {:>7} {:>6} {:>6} {:>6} {:>5} {:>6} {:>5} {:>6}  {}\n", "resident", "window",
               "read", "spill", "demand", "late", "hidden", "stall", "passes", "blocks");
    fmt::print("{:>8} {:>7} {:>6} {:>6} {:>6} {:>5} {:>6} {:>5} {:>6}  {}\n", "MiB", "MiB", "MiB/s",
               "MiB/s", "/s", "/s", "/s", "%", "", "n: MiB");
    return;
  }
  fmt::print("{:>8} {:>7} {:>6} {:>6} {:>5} {:>6} {:>6} {:>5} {:>6}  {}\n", "resident", "window",
             "read", "demand", "late", "trip", "hidden", "stall", "passes", "layer");
  fmt::print("{:>8} {:>7} {:>6} {:>6} {:>5} {:>6} {:>6} {:>5} {:>6}\n", "MiB", "MiB", "MiB/s", "/s",
             "/s", "/s", "/s", "%", "");
}

double mebibytes_of(const Json& stat, const char* key) {
  return mebibytes(stat.at(key).get<uint64_t>());
}

/// The layer of the last touch, as "12 block 11". A long name is cut, so the number comes first.
std::string cursor_of(const Json& stat) {
  const Json& cursor = stat.at("cursor");
  if (cursor.is_null()) return "-";
  const std::string text = fmt::format("{} {}", cursor.at("layer").get<uint64_t>(),
                                       cursor.at("name").get<std::string>());
  return text.substr(0, cursor_columns);
}

/// An engine that is attached to a server has neither window nor reads of its own.
void print_guest(const Json& stat, bool has_header) {
  if (has_header) fmt::print("{:>8} {:>8} {:>8} {:>12}\n", "server", "views", "MiB", "read errors");
  fmt::print("{:>8} {:>8} {:>8.0f} {:>12}\n", stat.at("server_process_id").get<int64_t>(),
             stat.at("views").get<uint64_t>(), mebibytes_of(stat, "view_bytes"),
             stat.at("read_errors").get<uint64_t>());
}

/// A process that runs networks itself has windows, but no pager: one row for each network.
void print_networks(const Json& stat, bool has_header) {
  if (has_header) {
    fmt::print("{:<16} {:>9} {:>9} {:>9} {:>10} {:>10}\n", "network", "window", "share", "weights",
               "read", "inferences");
    fmt::print("{:<16} {:>9} {:>9} {:>9} {:>10}\n", "", "MiB", "MiB", "MiB", "MiB");
  }
  for (const Json& it : stat.at("networks")) {
    fmt::print("{:<16} {:>9.1f} {:>9.1f} {:>9.1f} {:>10.0f} {:>10}\n",
               it.at("name").get<std::string>(), mebibytes_of(it, "window_bytes"),
               mebibytes_of(it, "share_bytes"), mebibytes_of(it, "weights_bytes"),
               mebibytes_of(it, "read_bytes"), it.at("inferences").get<uint64_t>());
  }
}

void print_row(const Json& stat, const Json& former) {
  const bool is_first = former.is_null();
  const uint64_t since_ns =
      is_first ? stat.at("started_ns").get<uint64_t>() : former.at("time_ns").get<uint64_t>();
  const double seconds =
      std::max(static_cast<double>(stat.at("time_ns").get<uint64_t>() - since_ns) / 1e9, 1e-9);
  const auto rate = [&](const char* key) {
    const uint64_t before = is_first ? 0 : former.at(key).get<uint64_t>();
    return static_cast<double>(stat.at(key).get<uint64_t>() - before) / seconds;
  };
  if (has_memory(stat)) {
    const Json& memory = stat.at("memory");
    fmt::print(
        "{:>8.0f} {:>7.0f} {:>6.0f} {:>6.0f} {:>6.0f} {:>5.0f} {:>6.0f} {:>5.1f} {:>6}  {}: "
        "{:.0f}\n",
        mebibytes_of(stat, "resident_bytes"), mebibytes_of(stat, "window_bytes"),
        rate("read_bytes") / static_cast<double>(MiB),
        rate("spill_written_bytes") / static_cast<double>(MiB), rate("faults_demand"),
        rate("faults_late"), rate("prefetch_hidden"), std::min(rate("stall_ns") / 1e7, 100.0),
        stat.at("passes").get<uint64_t>(), memory.at("blocks").get<uint64_t>(),
        mebibytes_of(memory, "size_bytes"));
    return;
  }
  fmt::print("{:>8.0f} {:>7.0f} {:>6.0f} {:>6.0f} {:>5.0f} {:>6.0f} {:>6.0f} {:>5.1f} {:>6}  {}\n",
             mebibytes_of(stat, "resident_bytes"), mebibytes_of(stat, "window_bytes"),
             rate("read_bytes") / static_cast<double>(MiB), rate("faults_demand"),
             rate("faults_late"), rate("faults_tripwire"), rate("prefetch_hidden"),
             std::min(rate("stall_ns") / 1e7, 100.0), stat.at("passes").get<uint64_t>(),
             cursor_of(stat));
}

/// The number of rows that fit below a header. Without a terminal there is only one header.
int rows_on_a_screen() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return INT32_MAX;
  return size.ws_row > 3 ? size.ws_row - 2 : rows_below_header;
}

struct Watching {
  uint64_t interval_ns = second_ns;
  uint32_t rows_max = UINT32_MAX;
  bool is_json = false;
};

Result<Watching> read_stat_options(const Arguments& arguments) {
  Watching watching{.is_json = arguments.has("json")};
  if (const auto text = arguments.value("interval")) {
    const auto interval_ns = parse_duration(*text, "--interval");
    if (!interval_ns) return tl::make_unexpected(interval_ns.error());
    if (*interval_ns < interval_ns_min) return fail("--interval: less than 10ms");
    watching.interval_ns = *interval_ns;
  }
  if (const auto text = arguments.value("count")) {
    const auto rows = parse_count(*text, "--count", UINT32_MAX);
    if (!rows) return tl::make_unexpected(rows.error());
    watching.rows_max = *rows;
  }
  return watching;
}

/// Waits, and returns whether the command is to go on.
bool wait_for(const OwnedFd& signals, uint64_t interval_ns) {
  pollfd watched = {signals.get(), POLLIN, 0};
  return poll(&watched, 1, static_cast<int>(interval_ns / 1'000'000)) == 0;
}

int watch(control::Client& client, const Watching& watching) {
  const auto signals = ending_signals();
  if (!signals) return failure(signals.error());
  Json former;
  for (uint32_t row = 0; row < watching.rows_max; ++row) {
    if (row > 0 && !wait_for(*signals, watching.interval_ns)) return exit_success;
    auto stat = client.ask(request_of("stat"));
    if (!stat) return live_failure(stat.error());
    if (watching.is_json) {
      print(stdout, stat->dump() + "\n");
    } else if (stat->contains("networks")) {
      print_networks(*stat, row == 0);
    } else if (stat->contains("server_process_id")) {
      print_guest(*stat, row == 0);
    } else {
      if (row % static_cast<uint32_t>(rows_on_a_screen()) == 0) print_header(*stat);
      print_row(*stat, former);
    }
    // A pipe's reader wants each row at once.
    if (std::fflush(stdout) != 0) return exit_failure;
    former = std::move(*stat);
  }
  return exit_success;
}

}  // namespace

int stat_command(const std::vector<std::string>& words) {
  const Command command = stat_description();
  return run_live_command(command, words, [&](const Arguments& arguments) -> int {
    const auto watching = read_stat_options(arguments);
    if (!watching) return misuse(watching.error());
    auto client = connect_to_operand(command, arguments);
    return client ? watch(*client, *watching) : client.error();
  });
}

}  // namespace weightpager::tools
