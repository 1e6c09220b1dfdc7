#include "tools/commands/reproduce/demand_layering_published.h"

#include <numeric>
#include <string>
#include <utility>

#include "runtime/infer/assumed_costs.h"
#include "runtime/network/resolution.h"
#include "runtime/network/synthetic/description.h"
#include "runtime/pipeline/search.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::demand_layering {

using network::Network;
using pipeline::Rings;
using pipeline::UnitCosts;

namespace {

constexpr double tolerance = 0.004;

/// Equations (1) and (5): Seq takes (reads + copies) longer than Pre.
double kernels_ms(const PublishedPipelines& known, const Network& network) {
  const Costs costs = infer::assumed_costs(network, {.kernels_ms = 1});
  uint64_t moved_ns = 0;
  for (const UnitCosts& unit : costs) moved_ns += unit.read_ns + unit.copy_ns;
  return milliseconds(moved_ns) / (known.changes[0].delay / 100);
}

}  // namespace

Result<Network> published_network(const PublishedPipelines& known, uint32_t side) {
  auto text = network::make_description(known.name);
  if (!text) return forward_error(std::move(text));
  return network::network_at(*text, known.name, {side, side});
}

Result<CostedNetwork> costed_network(const PublishedPipelines& known) {
  auto network = published_network(known, known.side);
  if (!network) return forward_error(std::move(network));
  const double kernels = kernels_ms(known, *network);
  Costs costs = infer::assumed_costs(*network, {.kernels_ms = kernels});
  return CostedNetwork{known, std::move(*network), kernels, std::move(costs)};
}

Result<Costs> costs_at(const CostedNetwork& it, uint32_t side) {
  const auto resized = published_network(it.known, side);
  if (!resized) return tl::make_unexpected(resized.error());
  return infer::assumed_costs(
      *resized, {.kernels_ms = infer::resized_kernels_ms(it.network, it.kernels_ms, *resized)});
}

uint64_t sum_of(const Costs& costs, uint64_t UnitCosts::*part) {
  return std::accumulate(costs.begin(), costs.end(), uint64_t{0},
                         [&](uint64_t sum, const UnitCosts& it) { return sum + it.*part; });
}

Rings rings_of(const ComparedPipeline& how, const Costs& costs) {
  if (how.is_without_delay)
    return pipeline::smallest_rings_without_stalls(how.pipeline, costs, tolerance);
  return pipeline::smallest_rings(how.pipeline, pipeline::work_units(costs));
}

std::vector<uint32_t> sides_of_pictures(const ReproduceSettings& settings,
                                        const PublishedPipelines& known) {
  const uint32_t grain = known.side % 64 == 0 ? 64 : 32;
  const uint32_t step = settings.is_quick ? 6 * grain : 2 * grain;
  constexpr uint32_t side_min = 224;
  std::vector<uint32_t> sides = {known.side};
  while (sides.front() >= side_min + step) sides.insert(sides.begin(), sides.front() - step);
  return sides;
}

}  // namespace weightpager::tools::demand_layering
