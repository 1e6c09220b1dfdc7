#include "tools/commands/doctor/doctor.h"

#include <fmt/core.h>

#include <cstdio>
#include <limits>

#include "tools/arguments/window_argument.h"
#include "tools/cli/cli.h"
#include "tools/commands/doctor/doctor_facts.h"
#include "tools/commands/doctor/doctor_report.h"
#include "tools/commands/doctor/doctor_rows.h"
#include "tools/terminal/terminal.h"

namespace weightpager::tools {
namespace {

constexpr int exit_failed = 1;

}  // namespace

Command doctor_description() {
  return {.name = "weightpager doctor",
          .purpose = "Checks this machine, for this user, and prints a fix for each problem.\n",
          .usage = "  weightpager doctor [OPTIONS] [MODEL]\n",
          .options = {{'w', "window", "SIZE",
                       "compare this window with memory, limits and model: 1GiB,\n"
                       "or 25% of MODEL"},
                      {0, "spill", "DIR",
                       "look at this folder for `run --spill`, too: room, speed,\n"
                       "wear; writes 256 MiB there at most, for a second"},
                      {0, "json", "", "print JSON: the same rows with all facts"}},
          .examples =
              "  weightpager doctor\n"
              "  weightpager doctor --window 1GiB model.gguf\n"
              "  weightpager doctor --window 1GiB --spill /var/tmp model.gguf\n"
              "  weightpager doctor --json | jq '.rows[] | select(.verdict == \"fail\")'\n",
          .environment = "  NO_COLOR  if set and not empty, no colours on a terminal\n",
          .exit_status =
              "  0  nothing failed (there may be warnings)\n"
              "  1  a row failed\n"
              "  2  it was called wrongly\n"};
}

namespace {

/// nullopt without --window, or if --window is a share of a model that cannot be read. A window
/// that is too large for the memory is no misuse: a row says so.
Result<std::optional<uint64_t>> read_window(const Arguments& arguments, const Facts& facts) {
  const auto text = arguments.value("window");
  if (!text) return std::nullopt;
  const bool is_share = !text->empty() && text->back() == '%';
  if (is_share && !facts.model) {
    return fail(fmt::format("--window {}: a share of which model?", *text),
                fmt::format("weightpager doctor --window {} model.gguf", *text));
  }
  if (is_share && !*facts.model) return std::nullopt;
  const uint64_t model_bytes = facts.model && *facts.model ? (*facts.model)->size_bytes : 0;
  const auto window_bytes =
      parse_window(*text, model_bytes, {std::numeric_limits<uint64_t>::max(), ""});
  if (!window_bytes) return tl::make_unexpected(window_bytes.error());
  return *window_bytes;
}

int examine(const Arguments& arguments) {
  const auto& operands = arguments.operands();
  if (operands.size() > 1) {
    return misuse({fmt::format("doctor: expected one model at most, found {}", operands.size()),
                   "one file of a model is enough: its others are found"});
  }

  Facts facts;
  if (!operands.empty()) facts.model = collect_model_facts(operands.front());
  const auto window_bytes = read_window(arguments, facts);
  if (!window_bytes) return misuse(window_bytes.error());
  facts.window_bytes = *window_bytes;
  facts.system = collect_system_facts();
  if (const auto folder = arguments.value("spill")) facts.spill = collect_spill_facts(*folder);
  facts.cuda = collect_cuda_facts();

  const std::vector<Row> rows = judge(facts);
  print(stdout, arguments.has("json") ? doctor_json(rows) : doctor_table(rows, wants_colour()));
  return worst(rows) == RowVerdict::fail ? exit_failed : exit_success;
}

}  // namespace

int doctor_command(const std::vector<std::string>& words) {
  return carry_out(doctor_description(), words, examine);
}

}  // namespace weightpager::tools
