#include "runtime/plan/profiler.h"

#include <fmt/format.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <limits>
#include <new>
#include <optional>
#include <utility>

#include "pager/base/log.h"
#include "pager/base/memory_room.h"
#include "pager/base/units.h"
#include "runtime/ops/cpu/primitive.h"
#include "runtime/plan/aligned_floats.h"
#include "runtime/plan/cold_weights.h"
#include "runtime/plan/network_instance.h"
#include "runtime/plan/planned_operations.h"
#include "runtime/plan/profile_cache.h"

namespace weightpager::plan {
namespace {

using Clock = std::chrono::steady_clock;
using network::Layer;
using network::Network;
using network::Shape;

// The version of our own candidates and of the way to measure: times change with them.
constexpr int measuring_version = 3;

// Candidates take turns, so that a disturbance in one round does not count against one of them.
constexpr int rounds = 3;
// A round runs a candidate runs_min times, then until round_ns or runs_max is reached.
constexpr int runs_min = 3;
constexpr int runs_max = 10;
constexpr double round_ns = 10e6;
// A candidate that takes hopeless_ns and hopeless_factor times the best has only one round.
constexpr double hopeless_ns = 20e6;
constexpr double hopeless_factor = 10;
constexpr double unmeasured_ns = std::numeric_limits<double>::infinity();

// The least time of a round's runs; each run returns its time.
template <typename TimedRun>
Result<double> round_of_timed(TimedRun run) {
  double least_ns = unmeasured_ns;
  double sum_ns = 0;
  for (int i = 0; i < runs_max && (i < runs_min || sum_ns < round_ns); ++i) {
    const Result<double> took_ns = run();
    if (!took_ns) return took_ns;
    least_ns = std::min(least_ns, *took_ns);
    sum_ns += *took_ns;
  }
  return least_ns;
}

template <typename Run>
Result<double> round_of(Run run) {
  return round_of_timed([&]() -> Result<double> {
    const auto started = Clock::now();
    if (Status ran = run(); !ran) return tl::make_unexpected(ran.error());
    return std::chrono::duration<double, std::nano>(Clock::now() - started).count();
  });
}

// Memory to measure candidates with: as much as any of them needs. The values do not matter for how
// long a candidate takes.
struct Buffers {
  AlignedFloats input;
  AlignedFloats output;
  AlignedFloats workspace;
  AlignedFloats biases;

  Buffers(const Layer& layer, const ops::ConvolutionCandidates& candidates)
      : input(numbers_for(candidates,
                          [&](const CandidateTraits& it) {
                            return ops::picture_bytes(layer.input, it.layout_in);
                          })),
        output(numbers_for(candidates,
                           [&](const CandidateTraits& it) {
                             return ops::picture_bytes(layer.output, it.layout_out);
                           })),
        workspace(
            numbers_for(candidates, [](const CandidateTraits& it) { return it.workspace_bytes; })),
        biases(some_numbers(layer.channels_with_bias() * sizeof(float))) {}

  template <typename Size>
  static AlignedFloats numbers_for(const ops::ConvolutionCandidates& candidates, Size size) {
    uint64_t most_bytes = 0;
    for (const auto& it : candidates) most_bytes = std::max(most_bytes, size(it->traits()));
    return some_numbers(most_bytes);
  }
  ops::ConvolutionCandidate::Pointers pointers(const float* packed) {
    return {input.data(), biases.data(), packed, output.data(), workspace.data()};
  }
};

bool are_same(const CandidateTraits& left, const CandidateTraits& right) {
  return left.name == right.name && left.layout_in == right.layout_in &&
         left.layout_out == right.layout_out && left.workspace_bytes == right.workspace_bytes &&
         left.packed_bytes == right.packed_bytes;
}

class Profiler {
 public:
  Profiler(const Network& network, const ProfilerOptions& options)
      : network_(network),
        options_(options),
        known_(read_profile_cache(options.cache_path, machine_words(options.threads))) {}

  Result<Profile> run() {
    omp_set_num_threads(options_.threads);
    Profile profile{.machine = known_.machine, .in_place = known_.in_place};
    size_t done = 0;
    for (const Layer& layer : network_.layers) {
      say(fmt::format("layer {} of {}", ++done, network_.layers.size()));
      if (std::holds_alternative<network::Convolutional>(layer.operation)) {
        if (Status added = add_convolution(layer, profile); !added) {
          return forward_error(std::move(added));
        }
      }
      if (Status added = add_changes(layer.output, profile); !added) {
        return forward_error(std::move(added));
      }
    }
    if (Status added = add_changes(network_.input, profile); !added) {
      return forward_error(std::move(added));
    }
    if (Status added = add_others(profile); !added) return forward_error(std::move(added));
    if (has_measured_ && !options_.cache_path.empty()) keep();
    return profile;
  }

 private:
  void say(const std::string& text) const {
    if (options_.on_progress) options_.on_progress(text);
  }

  Status add_convolution(const Layer& layer, Profile& profile) {
    const std::string key = convolution_key(layer);
    if (profile.convolutions.count(key) > 0) return {};
    const auto candidates = ops::convolution_candidates(layer, options_.threads);
    if (is_known(key, candidates)) {
      profile.convolutions[key] = known_.convolutions[key];
      return {};
    }
    auto measured = measure(layer, candidates);
    if (!measured) return forward_error(std::move(measured));
    known_.convolutions[key] = *measured;
    profile.convolutions[key] = std::move(*measured);
    has_measured_ = true;
    return {};
  }

  bool is_known(const std::string& key, const ops::ConvolutionCandidates& candidates) const {
    const auto found = known_.convolutions.find(key);
    return found != known_.convolutions.end() &&
           std::equal(found->second.begin(), found->second.end(), candidates.begin(),
                      candidates.end(), [](const MeasuredCandidate& left, const auto& right) {
                        return are_same(left.traits, right->traits());
                      });
  }

  Result<std::vector<MeasuredCandidate>> measure(const Layer& layer,
                                                 const ops::ConvolutionCandidates& candidates) {
    Buffers buffers(layer, candidates);
    std::vector<MeasuredCandidate> measured;
    for (const auto& it : candidates) measured.push_back({it->traits(), unmeasured_ns});
    double best_ns = unmeasured_ns;
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < candidates.size(); ++i) {
        double& least_ns = measured[i].time_ns;
        const bool is_hopeless =
            round > 0 && least_ns > hopeless_ns && least_ns > hopeless_factor * best_ns;
        if (is_hopeless) continue;
        const auto time_ns = round_of([&] {
          const float* const packed = cold_.next(measured[i].traits.packed_bytes);
          return candidates[i]->run(buffers.pointers(packed));
        });
        if (!time_ns) return tl::make_unexpected(time_ns.error());
        least_ns = std::min(least_ns, *time_ns);
        best_ns = std::min(best_ns, least_ns);
      }
    }
    return measured;
  }

  Status add_changes(const Shape& shape, Profile& profile) {
    const std::string key = picture_key(shape);
    if (profile.changes.count(key) > 0) return {};
    const auto found = known_.changes.find(key);
    if (found == known_.changes.end()) {
      auto times = measure_changes(shape);
      if (!times) return forward_error(std::move(times));
      known_.changes[key] = *times;
      has_measured_ = true;
    }
    profile.changes[key] = known_.changes[key];
    return {};
  }

  Result<LayoutChangeTimes> measure_changes(const Shape& shape) {
    LayoutChangeTimes times{};
    uint64_t most_bytes = 0;
    for (const ops::Layout layout : ops::all_layouts) {
      most_bytes = std::max(most_bytes, ops::picture_bytes(shape, layout));
    }
    const AlignedFloats input = some_numbers(most_bytes);
    const AlignedFloats output = some_numbers(most_bytes);
    for (int round = 0; round < rounds; ++round) {
      for (const ops::Layout from : ops::all_layouts) {
        for (const ops::Layout to : ops::all_layouts) {
          if (from == to) continue;
          auto change = ops::LayoutChange::make(shape, from, to);
          if (!change) return forward_error(std::move(change));
          const auto time_ns = round_of([&] { return change->run(input.data(), output.data()); });
          if (!time_ns) return tl::make_unexpected(time_ns.error());
          double& least_ns = times[static_cast<size_t>(from)][static_cast<size_t>(to)];
          least_ns = round == 0 ? *time_ns : std::min(least_ns, *time_ns);
        }
      }
    }
    return times;
  }

  Status add_others(Profile& profile) {
    for (uint32_t i = 0; i < network_.layers.size(); ++i) {
      const std::string key = other_key(network_.layers[i]);
      if (key.empty() || profile.others.count(key) > 0) continue;
      if (known_.others.count(key) == 0) {
        const auto times = measure_other(i);
        if (!times) return tl::make_unexpected(times.error());
        known_.others[key] = *times;
        has_measured_ = true;
      }
      profile.others[key] = known_.others[key];
    }
    return {};
  }

  Result<LayoutTimes> measure_other(uint32_t number) {
    const Layer& layer = network_.layers[number];
    const auto* const convolution = std::get_if<network::Convolutional>(&layer.operation);
    const auto plain_ns = convolution != nullptr ? measure_activation(layer, *convolution)
                                                 : measure_in(ops::Layout::nchw, number);
    if (!plain_ns) return tl::make_unexpected(plain_ns.error());
    LayoutTimes times;
    times.fill(*plain_ns);
    for (const ops::Layout layout : ops::all_layouts) {
      if (layout == ops::Layout::nchw || !keeps_layout(network_, layer, layout)) continue;
      // For some layers this layout has no code that is worth running. No plan has them there:
      // make_instance() leaves such layouts out.
      if (!operations_in(layout)) continue;
      const auto time_ns = measure_in(layout, number);
      if (!time_ns) return tl::make_unexpected(time_ns.error());
      times[static_cast<size_t>(layout)] = *time_ns;
    }
    return times;
  }

  Result<double> measure_activation(const Layer& layer, const network::Convolutional& it) {
    auto function =
        ops::Primitive::elementwise(*ops::Elementwise::of(it.activation), layer.output.elements());
    if (!function) return forward_error(std::move(function));
    dnnl::stream stream(ops::cpu_engine());
    const AlignedFloats input = some_numbers(layer.output.size_bytes());
    const AlignedFloats output = some_numbers(layer.output.size_bytes());
    return least_of_rounds([&] {
      return round_of([&] { return function->run(stream, {input.data(), output.data()}); });
    });
  }

  // The network with this layout in every layer that works in it. Made once.
  Result<PlannedOperations>& operations_in(ops::Layout layout) {
    auto& made = operations_[static_cast<size_t>(layout)];
    if (made) return *made;
    std::vector<LayerChoice> choices(network_.layers.size());
    for (size_t i = 0; i < choices.size(); ++i) {
      if (!keeps_layout(network_, network_.layers[i], layout)) continue;
      choices[i] = {.computed_by = "", .layout_in = layout, .layout_out = layout};
    }
    return made.emplace(PlannedOperations::make(network_, choices, options_.threads));
  }

  // Runs the layer as a planned network does, without bringing its inputs into the layout.
  Result<double> measure_in(ops::Layout layout, uint32_t number) {
    Result<PlannedOperations>& operations = operations_in(layout);
    if (!operations) return tl::make_unexpected(operations.error());
    const Layer& layer = network_.layers[number];
    std::vector<AlignedFloats> numbers;
    std::vector<const float*> inputs;
    std::vector<float*> changed;
    const auto add = [&](uint32_t source) {
      const Shape& shape = network_.shape_of(source);
      numbers.push_back(some_numbers(ops::picture_bytes(shape, layout)));
      return numbers.back().data();
    };
    for (const uint32_t source : layer.inputs) {
      inputs.push_back(add(source));
      changed.push_back(add(source));
    }
    const AlignedFloats output = some_numbers(ops::picture_bytes(layer.output, layout));
    const AlignedFloats workspace = some_numbers(operations->memory()[number].workspace_bytes);
    const AlignedFloats biases = some_numbers(layer.channels_with_bias() * sizeof(float));
    return least_of_rounds([&] {
      return round_of_timed([&]() -> Result<double> {
        const float* const weights = cold_.next(layer.weights() * sizeof(float));
        RunTimes times;
        Status ran =
            operations->run(number, operations->all_channels(number), {biases.data(), weights},
                            {inputs, changed, output.data(), workspace.data()}, times);
        if (!ran) return tl::make_unexpected(ran.error());
        return times.others_ns;
      });
    });
  }

  template <typename Round>
  static Result<double> least_of_rounds(Round run) {
    double least_ns = unmeasured_ns;
    for (int round = 0; round < rounds; ++round) {
      const Result<double> time_ns = run();
      if (!time_ns) return time_ns;
      least_ns = std::min(least_ns, *time_ns);
    }
    return least_ns;
  }

  void keep() const {
    if (Status kept = write_profile_cache(options_.cache_path, known_); !kept) {
      notice(fmt::format("{}; the next plan measures again", kept.error().message));
    }
  }

  const Network& network_;
  const ProfilerOptions& options_;
  // The profile of the cache and of new measurements, also of other networks.
  Profile known_;
  bool has_measured_ = false;
  ColdWeights cold_;
  // By layout.
  std::array<std::optional<Result<PlannedOperations>>, layout_count> operations_;
};

// The least memory that measuring takes. It is checked before the first layer is measured, so that
// measuring does not run out of memory at the last.
uint64_t measuring_bytes(const Network& network) {
  uint64_t most_bytes = 2 * network.input.size_bytes();
  for (const Layer& it : network.layers) {
    uint64_t layer_bytes = it.output.size_bytes();
    for (const uint32_t input : it.inputs) layer_bytes += network.shape_of(input).size_bytes();
    most_bytes = std::max({most_bytes, layer_bytes, 2 * it.output.size_bytes()});
  }
  return most_bytes + ColdWeights::cold_bytes;
}

}  // namespace

std::string processor_name() {
  std::ifstream lines("/proc/cpuinfo");
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

std::string machine_words(int threads) {
  const dnnl_version_t* const version = dnnl_version();
  return fmt::format("{}, oneDNN {}.{}.{} {}, instruction set {}, {} threads, measuring version {}",
                     processor_name(), version->major, version->minor, version->patch,
                     version->hash, static_cast<int>(dnnl_get_effective_cpu_isa()), threads,
                     measuring_version);
}

Result<Profile> profile_network(const Network& network, const ProfilerOptions& options) {
  Status fits = check_room({.what = "measuring the network's layers",
                            .parts = "the largest one's activations, and weights that no cache has",
                            .bytes = measuring_bytes(network)},
                           "make pictures smaller (`width=` and `height=` in the .cfg)");
  if (!fits) return forward_error(std::move(fits));
  try {
    return Profiler(network, options).run();
  } catch (const NoRoom& it) {
    return tl::make_unexpected(it.error);
  } catch (const std::bad_alloc&) {
    return fail("out of memory while measuring convolutions", "leave more memory for the planner");
  }
}

}  // namespace weightpager::plan
