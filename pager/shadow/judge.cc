#include "pager/shadow/judge.h"

#include <algorithm>

namespace weightpager::shadow {
namespace {

// A change of policy empties half of the window, so it has to be worth it; and a simulation is not
// the machine.
constexpr double time_ratio_max = 0.9;

void play_twice(simulate::Trace& sample) {
  const size_t touches = sample.touches.size();
  sample.touches.reserve(2 * touches);
  std::copy_n(sample.touches.begin(), touches, std::back_inserter(sample.touches));
  sample.pass_begins = {0, touches};
}

}  // namespace

std::optional<Verdict> judge(simulate::Trace sample, const simulate::SimulatorOptions& situation,
                             std::span<const std::string_view> refuted) {
  play_twice(sample);
  const auto time_ns = [&](std::string_view policy) -> std::optional<uint64_t> {
    simulate::SimulatorOptions options = situation;
    options.policy = policy;
    const auto run = simulate::simulate(sample, options);
    if (!run) return {};
    return run->passes.back().time_ns;
  };
  const auto used_ns = time_ns(situation.policy);
  if (!used_ns) return {};
  Verdict verdict{.best = policy::policy_name(policy::policy_number(situation.policy))};
  uint64_t best_ns = *used_ns;
  for (const policy::NamedPolicy& it : policy::named_policies()) {
    const bool is_refuted = std::find(refuted.begin(), refuted.end(), it.name) != refuted.end();
    if (it.needs_future || is_refuted || it.name == situation.policy) continue;
    const auto its_ns = time_ns(it.name);
    if (!its_ns) return {};
    const auto enough_ns = static_cast<double>(*used_ns) * time_ratio_max;
    if (*its_ns >= best_ns || static_cast<double>(*its_ns) > enough_ns) continue;
    best_ns = *its_ns;
    verdict.best = it.name;
  }
  if (*used_ns > 0)
    verdict.time_ratio = static_cast<double>(best_ns) / static_cast<double>(*used_ns);
  return verdict;
}

}  // namespace weightpager::shadow
