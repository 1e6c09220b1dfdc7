// How soon passes are as fast as they will be, when something changes while the engine runs: from a
// prompt to decoding, a smaller window, a larger one.
//
// The live pager with its default policy on a real file, and an engine that only pretends to
// compute (tools/live_policy.h). A pass counts as recovered from when on it and its successor take
// at most a tenth longer than the median of the last passes. Prints a table; --json writes one.
//
//     build/release/bench/adaptation MODEL [--json FILE]      (a model of one file, some GiB)
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "pager/base/median.h"
#include "pager/model/model.h"
#include "pager/policy/chunk_size.h"
#include "pager/simulate/make_trace.h"
#include "tools/live_policy.h"

namespace weightpager {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint32_t change_pass = 8;
constexpr uint32_t passes = 24;
constexpr uint32_t settled_passes = 8;  // the last ones
constexpr double tolerance = 1.1;

struct Change {
  std::string name;
  uint32_t prompt_passes = 0;
  double window_share = 0.5;
  double window_share_after = 0;  // 0: as before
};

const std::vector<Change> changes = {{"prompt to decode", change_pass, 0.5, 0},
                                     {"half the window", 0, 0.5, 0.25},
                                     {"twice the window", 0, 0.25, 0.5}};

// Passes after the change until they are as fast as the last ones.
size_t passes_to_recover(const std::vector<double>& seconds, double settled) {
  for (size_t pass = change_pass; pass + 1 < seconds.size(); ++pass) {
    if (std::max(seconds[pass], seconds[pass + 1]) <= tolerance * settled)
      return pass - change_pass;
  }
  return seconds.size() - change_pass;
}

Result<Json> measure(const model::Model& model, const Change& change) {
  simulate::Workload work;
  work.passes = passes;
  work.prompt_passes = change.prompt_passes;
  const simulate::Trace trace = simulate::make_trace(model, work, change.name);
  const auto window = [&](double share) {
    const auto chunks = static_cast<uint64_t>(share * trace.chunks);
    return std::max(chunks * trace.chunk_bytes, 32 * MiB);
  };
  tools::LiveOptions options{.policy = std::string(policy::adaptive_policy),
                             .window_bytes = window(change.window_share)};
  if (change.window_share_after > 0) {
    options.resize_pass = change_pass;
    options.resize_bytes = window(change.window_share_after);
  }
  const auto run = tools::run_live(model, tools::in_naps(trace), options);
  if (!run) return tl::make_unexpected(run.error());
  std::vector<double> seconds;
  for (const simulate::PassCounts& pass : run->passes) {
    seconds.push_back(static_cast<double>(pass.time_ns) / 1e9);
  }
  const double settled = median(std::vector(seconds.end() - settled_passes, seconds.end()));
  const size_t needed = passes_to_recover(seconds, settled);
  fmt::print("| {} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {} |\n", change.name, settled,
             seconds[change_pass], seconds[change_pass + 1], seconds[change_pass + 2], needed);
  return Json{{"change", change.name},
              {"pass_s", seconds},
              {"settled_s", settled},
              {"passes_to_recover", needed}};
}

int run(const std::string& path, const std::string& json_path) {
  const auto model = model::open_model(path);
  if (!model) {
    fmt::print(stderr, "{}\n", model.error().message);
    return 1;
  }
  fmt::print("| change | settled s/pass | first after | second | third | passes to recover |\n");
  fmt::print("|---|---|---|---|---|---|\n");
  Json all = Json::array();
  for (const Change& change : changes) {
    auto it = measure(*model, change);
    if (!it) {
      fmt::print(stderr, "{}\n", it.error().message);
      return 1;
    }
    all.push_back(std::move(*it));
  }
  if (!json_path.empty()) std::ofstream(json_path) << all.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace weightpager

int main(int argc, char** argv) {
  const bool has_json = argc == 4 && std::string(argv[2]) == "--json";
  if (argc != 2 && !has_json) {
    fmt::print(stderr, "usage: adaptation MODEL [--json FILE]\n");
    return 2;
  }
  return weightpager::run(argv[1], has_json ? argv[3] : "");
}
