#include "runtime/plan/in_place_profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "runtime/plan/baselines.h"
#include "runtime/plan/cold_weights.h"
#include "runtime/plan/in_place.h"
#include "runtime/plan/network_instance.h"
#include "runtime/plan/profile_cache.h"

namespace weightpager::plan {
namespace {

using network::Network;

// A measurement goes on until both the time and passes_min are reached, or passes_max, which is
// enough for small networks. The time is several times as long as a machine keeps a pace. Ways that
// run in turns with the reference are compared with it, and need less.
constexpr double enough_ns = 4e9;
constexpr double enough_in_turns_ns = 2e9;
constexpr size_t passes_min = 6;
constexpr size_t passes_max = 1000;
// Rounds of planning anew: each measures what was new in the plan before, and some networks could
// go on for long.
constexpr int rounds_max = 4;

double time_ns_of(const Pass& pass) {
  double sum = 0;
  for (const RunTimes& it : pass) sum += it.planned_ns() + it.others_ns;
  return sum;
}

uint64_t most_biases(const Network& network) {
  uint64_t most = 0;
  for (const network::Layer& it : network.layers) most = std::max(most, it.channels_with_bias());
  return most;
}

class InPlaceProfiler {
 public:
  InPlaceProfiler(const Network& network, const Profile& alone, const ProfilerOptions& options)
      : network_(network),
        alone_(alone),
        options_(options),
        input_(network.input.elements(), 0.5f),
        biases_(some_numbers(most_biases(network) * sizeof(float))) {}

  Result<Profile> run(Pace pace, const Choose& choose) {
    if (Status done = prepare(); !done) return forward_error(std::move(done));
    Ways ways;
    for (int round = 1; round <= rounds_max; ++round) {
      auto chosen = choose(in_place(alone_, times_));
      if (!chosen) return forward_error(std::move(chosen));
      WP_ASSERT(!chosen->empty());
      ways = std::move(*chosen);
      const auto has_new = measure_new(ways, round);
      if (!has_new) return tl::make_unexpected(has_new.error());
      if (!*has_new) break;
    }
    if (has_measured_ && !options_.cache_path.empty()) keep();
    Profile profile = in_place(alone_, times_);
    if (pace == Pace::as_first_measured) return profile;
    return at_pace_now(profile, ways);
  }

 private:
  void say(const std::string& text) const {
    if (options_.on_progress) options_.on_progress(text);
  }

  // Takes the times that are known; or else runs the network as it is fastest by the times alone.
  Status prepare() {
    const auto found = alone_.in_place.find(network_key(network_));
    if (found != alone_.in_place.end()) times_ = found->second;
    const Instance instance =
        make_instance(network_, alone_, SelectionScope::whole_network, 0).instance;
    auto fastest = fastest_ignoring_memory(instance);
    if (!fastest) return forward_error(std::move(fastest));
    reference_ = choices_of(network_, alone_, instance, fastest->candidates);
    if (are_known(parts_of(network_, alone_, reference_), times_)) return {};
    times_.clear();
    say("the network as a whole");
    const auto passes = measure({reference_}, enough_ns);
    if (!passes) return tl::make_unexpected(passes.error());
    times_ = times_in_run(parts_of(network_, alone_, reference_), passes->front());
    has_measured_ = true;
    return {};
  }

  Result<bool> measure_new(const Ways& ways, int round) {
    bool has_new = false;
    for (size_t i = 0; i < ways.size(); ++i) {
      const auto parts = parts_of(network_, alone_, ways[i]);
      if (are_known(parts, times_)) continue;
      say(fmt::format("the network as a whole, way {} of {}, round {}", i + 1, ways.size(), round));
      if (Status added = add(ways[i], parts); !added) return tl::make_unexpected(added.error());
      has_new = true;
    }
    return has_new;
  }

  // Adds the parts of these choices that are new, at the pace of the reference's first measurement.
  Status add(const std::vector<LayerChoice>& choices, const std::vector<LayerParts>& parts) {
    const auto passes = measure({reference_, choices}, enough_in_turns_ns);
    if (!passes) return tl::make_unexpected(passes.error());
    const auto reference_parts = parts_of(network_, alone_, reference_);
    InPlaceTimes now = times_in_run(reference_parts, passes->front());
    now.merge(times_in_run(parts, passes->back()));
    times_.merge(at_pace_of(times_, alone_, now));
    has_measured_ = true;
    return {};
  }

  // Parts that are run have their time now, and the others change by the same ratios. The ends and
  // the middle of a front have most kinds of work that its ways have.
  Result<Profile> at_pace_now(const Profile& then, const Ways& ways) {
    say("the pace of the machine");
    Ways some = {ways.front(), ways[ways.size() / 2], ways.back()};
    some.erase(std::unique(some.begin(), some.end()), some.end());
    const auto passes = measure(some, enough_ns);
    if (!passes) return tl::make_unexpected(passes.error());
    InPlaceTimes now;
    for (size_t i = 0; i < some.size(); ++i) {
      now.merge(times_in_run(parts_of(network_, then, some[i]), (*passes)[i]));
    }
    return in_place(then, now);
  }

  // The ways run in turns, so that all of them see the same machine.
  Result<std::vector<Pass>> measure(const Ways& ways, double spend_ns) {
    std::vector<PlannedNetwork> networks;
    for (const auto& choices : ways) {
      auto planned = PlannedNetwork::make(network_, choices, options_.threads);
      if (!planned) return forward_error(std::move(planned));
      networks.push_back(std::move(*planned));
    }
    std::vector<std::vector<Pass>> passes(networks.size());
    double spent_ns = 0;
    const auto is_enough = [&] {
      const size_t done = passes.front().size();
      return done >= passes_min && (done >= passes_max || spent_ns >= spend_ns);
    };
    // The first pass is not counted: it brings in the pages that every pass needs.
    for (bool is_first = true; !is_enough(); is_first = false) {
      for (size_t i = 0; i < networks.size(); ++i) {
        auto pass = run(networks[i]);
        if (!pass) return forward_error(std::move(pass));
        if (is_first) continue;
        spent_ns += time_ns_of(*pass);
        passes[i].push_back(std::move(*pass));
      }
    }
    std::vector<Pass> middles;
    for (auto& it : passes) middles.push_back(middle_of(std::move(it)));
    return middles;
  }

  Result<Pass> run(PlannedNetwork& planned) {
    return planned.run(input_, [&](uint32_t layer) -> ops::TileWeights {
      const uint64_t bytes = planned.operations().weight_forms()[layer].size_bytes;
      return {biases_.data(), weights_.next(bytes)};
    });
  }

  void keep() const {
    Profile known = read_profile_cache(options_.cache_path, alone_.machine);
    known.in_place[network_key(network_)] = times_;
    if (Status kept = write_profile_cache(options_.cache_path, known); !kept) {
      notice(fmt::format("{}; the next plan measures again", kept.error().message));
    }
  }

  const Network& network_;
  const Profile& alone_;
  const ProfilerOptions& options_;
  std::vector<LayerChoice> reference_;
  InPlaceTimes times_;
  bool has_measured_ = false;
  const std::vector<float> input_;
  const AlignedFloats biases_;
  ColdWeights weights_;
};

}  // namespace

Pass middle_of(std::vector<Pass> passes) {
  WP_ASSERT(!passes.empty());
  std::sort(passes.begin(), passes.end(), [](const Pass& left, const Pass& right) {
    return time_ns_of(left) < time_ns_of(right);
  });
  const size_t left_out = passes.size() / 4;
  const auto count = static_cast<double>(passes.size() - 2 * left_out);
  Pass mean(passes.front().size());
  for (size_t i = left_out; i < passes.size() - left_out; ++i) {
    for (size_t layer = 0; layer < mean.size(); ++layer) {
      mean[layer].convolutions_ns += passes[i][layer].convolutions_ns / count;
      mean[layer].changes_ns += passes[i][layer].changes_ns / count;
      mean[layer].others_ns += passes[i][layer].others_ns / count;
    }
  }
  return mean;
}

Result<Profile> profile_in_place(const Network& network, const Profile& alone,
                                 const ProfilerOptions& options, Pace pace, const Choose& choose) {
  try {
    return InPlaceProfiler(network, alone, options).run(pace, choose);
  } catch (const NoRoom& it) {
    return tl::make_unexpected(it.error);
  } catch (const std::bad_alloc&) {
    return fail("out of memory while measuring a network", "leave more memory for the planner");
  }
}

}  // namespace weightpager::plan
