#include "tools/commands/plan/selection_run.h"

#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "pager/base/median.h"

namespace weightpager::tools {
namespace {

using network::Network;

constexpr size_t turns_min = 10;
constexpr size_t turns_max = 1000;
constexpr double enough_ns = 2e9;

// The time of a layer does not depend on its weights, as long as the numbers stay moderate.
class RandomWeights {
 public:
  explicit RandomWeights(const Network& network) : network_(network) {}

  /// Valid until the next call.
  ops::TileWeights of(uint32_t layer) {
    const network::Layer& it = network_.layers[layer];
    const auto outputs = static_cast<float>(it.output.channels);
    const float deviation = std::sqrt(2 * outputs / static_cast<float>(it.weights()));
    std::normal_distribution<float> around(0, deviation);
    biases_.assign(it.output.channels, 0.01f);
    weights_.resize(it.weights());
    for (float& value : weights_) value = around(random_);
    return {biases_.data(), weights_.data()};
  }

 private:
  const Network& network_;
  std::mt19937 random_{1};
  std::vector<float> biases_;
  std::vector<float> weights_;
};

}  // namespace

SelectionRun::SelectionRun(const Network& network, plan::PlannedNetwork planned,
                           plan::PackedWeights weights)
    : input_(network.input.elements(), 0.5f),
      planned_(std::move(planned)),
      weights_(std::move(weights)) {}

Result<SelectionRun> SelectionRun::make(const Network& network,
                                        std::span<const plan::LayerChoice> choices, int threads) {
  auto planned = plan::PlannedNetwork::make(network, choices, threads);
  if (!planned) return forward_error(std::move(planned));
  RandomWeights weights(network);
  auto packed = plan::PackedWeights::make(network, planned->operations(),
                                          [&](uint32_t layer) { return weights.of(layer); });
  if (!packed) return forward_error(std::move(packed));
  return SelectionRun(network, std::move(*planned), std::move(*packed));
}

Result<double> SelectionRun::pass_ns() {
  const auto pass = planned_.run(input_, [&](uint32_t layer) { return weights_.of(layer); });
  if (!pass) return tl::make_unexpected(pass.error());
  return std::accumulate(pass->begin(), pass->end(), 0.0, [](double sum, const plan::RunTimes& it) {
    return sum + it.planned_ns();
  });
}

Result<InTurns> run_in_turns(SelectionRun& selection, SelectionRun& reference) {
  std::vector<double> took_ns;
  std::vector<double> by_reference;
  double spent_ns = 0;
  const auto is_enough = [&] {
    const size_t turns = took_ns.size();
    return turns >= turns_min && (turns >= turns_max || spent_ns >= enough_ns);
  };
  while (!is_enough()) {
    const auto reference_ns = reference.pass_ns();
    if (!reference_ns) return tl::make_unexpected(reference_ns.error());
    const auto selection_ns = selection.pass_ns();
    if (!selection_ns) return tl::make_unexpected(selection_ns.error());
    took_ns.push_back(*selection_ns);
    by_reference.push_back(*selection_ns / *reference_ns);
    spent_ns += *selection_ns;
  }
  return InTurns{.took_ns = median(std::move(took_ns)),
                 .by_reference = median(std::move(by_reference))};
}

}  // namespace weightpager::tools
