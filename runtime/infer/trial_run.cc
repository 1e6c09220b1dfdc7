#include "runtime/infer/trial_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "pager/base/assert.h"
#include "pager/base/median.h"
#include "runtime/infer/inference.h"
#include "runtime/infer/layer_measurement.h"
#include "runtime/network/packed_file.h"
#include "runtime/plan/planned_operations.h"

namespace weightpager::infer {
namespace {

// The speed of a shared machine mostly stays the same for this long, so each plan has a few turns.
constexpr int turns = 3;
constexpr uint64_t turn_ns = 500'000'000;
constexpr size_t turn_passes_min = 3;
constexpr size_t turn_passes_max = 60;

/// A file that is unlinked at the end of this object's life.
class Unlinked {
 public:
  explicit Unlinked(std::string path) : path_(std::move(path)) {}
  Unlinked(const Unlinked&) = delete;
  Unlinked& operator=(const Unlinked&) = delete;
  ~Unlinked() { unlink(path_.c_str()); }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Opens the plan with a weights file of its own, which is unlinked before this returns.
Result<std::unique_ptr<Inference>> open(const network::Network& network,
                                        const plan::JointPlan& plan,
                                        const std::string& weights_path, int threads,
                                        uint64_t promised_bytes) {
  auto operations = plan::PlannedOperations::make(network, plan.choices, threads);
  if (!operations) return forward_error(std::move(operations));
  const Unlinked file(fmt::format("{}.trial-run-{}", weights_path, getpid()));
  network::PackOptions packing = plan::packing_for(*operations, weights_path, file.path());
  packing.overwrite = true;
  const auto packed = network::pack_weights(network, packing);
  if (!packed) return tl::make_unexpected(packed.error());
  return Inference::open(network, file.path(),
                         {.plan = &plan, .threads = threads, .promised_bytes = promised_bytes});
}

/// Passes in a row, as `infer` runs them.
Status take_turn(Inference& inference, std::span<const float> input,
                 std::vector<uint64_t>& delays_ns) {
  const std::span<const float> inputs[] = {input};
  uint64_t spent_ns = 0;
  const auto is_enough = [&](size_t passes) {
    return passes >= turn_passes_min && (passes >= turn_passes_max || spent_ns >= turn_ns);
  };
  if (Status filled = inference.run(inputs); !filled) return filled;
  for (size_t passes = 0; !is_enough(passes); ++passes) {
    if (Status ran = inference.run(inputs); !ran) return ran;
    delays_ns.push_back(inference.times().delay_ns());
    spent_ns += delays_ns.back();
  }
  return {};
}

/// The median delay of each, in ns.
Result<std::vector<uint64_t>> take_turns(std::span<Inference* const> inferences,
                                         std::span<const float> input) {
  std::vector<std::vector<uint64_t>> delays_ns(inferences.size());
  for (int turn = 0; turn < turns; ++turn) {
    for (size_t i = 0; i < inferences.size(); ++i) {
      Status taken = take_turn(*inferences[i], input, delays_ns[i]);
      if (!taken) return forward_error(std::move(taken));
    }
  }
  std::vector<uint64_t> medians_ns;
  for (auto& it : delays_ns) medians_ns.push_back(median(std::move(it)));
  return medians_ns;
}

}  // namespace

Result<TrialRun> run_trials(const network::Network& network, std::span<const plan::JointPlan> plans,
                            const std::string& weights_path, int threads) {
  WP_ASSERT(!plans.empty());
  std::vector<std::unique_ptr<Inference>> opened;
  std::vector<Inference*> inferences;
  uint64_t promised_bytes = 0;
  for (const plan::JointPlan& it : plans) {
    auto inference = open(network, it, weights_path, threads, promised_bytes);
    if (!inference) return forward_error(std::move(inference));
    promised_bytes += (*inference)->promised_bytes();
    inferences.push_back(opened.emplace_back(std::move(*inference)).get());
  }
  const std::vector<float> input = some_input(network);
  size_t fastest = 0;
  if (plans.size() > 1) {
    const auto delays_ns = take_turns(inferences, input);
    if (!delays_ns) return tl::make_unexpected(delays_ns.error());
    const auto least = std::min_element(delays_ns->begin(), delays_ns->end());
    fastest = static_cast<size_t>(least - delays_ns->begin());
  }
  const auto by_itself_ns = take_turns(std::span(inferences).subspan(fastest, 1), input);
  if (!by_itself_ns) return tl::make_unexpected(by_itself_ns.error());
  return TrialRun{.fastest = fastest, .delay_ns = by_itself_ns->front()};
}

}  // namespace weightpager::infer
