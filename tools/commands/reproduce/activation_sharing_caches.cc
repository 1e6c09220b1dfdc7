// The time that caches save where activations share memory, measured on this machine.
//
// The paper says that smaller memory "leads to improved cache hit rate that can also translate to
// up to 10% improvement in inference speed". It names neither network nor machine.
//
// Here the same passes run with activations at three places (placed_passes.h), in turns, so that
// all of them see the same machine. Networks that weightpager can run compute; of the paper's
// networks, whose layers it does not have, only the memory traffic is repeated. Outputs must be the
// same to the bit. One thread runs, and its processor time counts: what else the machine does
// then matters little.
//
// Cost: a fixed time for each network, less with --quick.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <optional>
#include <utility>

#include "runtime/network/synthetic/published_activations.h"
#include "tools/commands/reproduce/activation_sharing_figures.h"
#include "tools/commands/reproduce/placed_passes.h"
#include "tools/probes/cache_misses.h"
#include "tools/report/svg_chart.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools {
namespace {

using Clock = std::chrono::steady_clock;

/// The passes of one network at one kind of places.
struct MeasuredPasses {
  std::vector<double> times_ms;  // of the processor, ascending
  uint64_t misses = 0;           // of all passes

  /// `share` of the passes took less.
  double quantile_ms(double share) const {
    return times_ms[static_cast<size_t>(share * static_cast<double>(times_ms.size() - 1))];
  }
  double median_ms() const { return quantile_ms(0.5); }
};

double thread_time_ms() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

/// A pass by each in turns, until the time is spent. The first turn does not count: it brings in
/// the pages.
template <typename Pass>
Result<std::vector<MeasuredPasses>> measure_in_turns(std::vector<Pass>& passes, double spend_s,
                                                     const std::optional<CacheMisses>& counter) {
  constexpr size_t rounds_least = 5;
  std::vector<MeasuredPasses> measured(passes.size());
  const auto begin = Clock::now();
  for (size_t turn = 0;; ++turn) {
    const double spent_s = std::chrono::duration<double>(Clock::now() - begin).count();
    if (turn > rounds_least && spent_s >= spend_s) break;
    for (size_t i = 0; i < passes.size(); ++i) {
      const uint64_t misses_before = counter ? counter->count() : 0;
      const double before_ms = thread_time_ms();
      if (Status ran = passes[i].run(); !ran) return forward_error(std::move(ran));
      const double took_ms = thread_time_ms() - before_ms;
      if (turn == 0) continue;
      measured[i].times_ms.push_back(took_ms);
      if (counter) measured[i].misses += counter->count() - misses_before;
    }
  }
  for (MeasuredPasses& it : measured) std::sort(it.times_ms.begin(), it.times_ms.end());
  return measured;
}

/// A table and a picture of one kind of passes.
class Comparison {
 public:
  Comparison(const std::string& title, const std::string& note, bool has_misses)
      : has_misses_(has_misses) {
    table_ = {.title = title + ", this machine",
              .columns = {"network", "places", "MiB", "median, ms", "quartiles, ms",
                          "against nothing shared, %"},
              .rows = {},
              .note = note};
    if (has_misses) table_.columns.emplace_back("cache misses of a pass");
    chart_ = {.title = title + ", this machine: medians and quartiles",
              .y_label = "% of the median with nothing shared",
              .series = {},
              .groups = {}};
  }

  void add(const std::string& network, const std::vector<Places>& places,
           const std::vector<MeasuredPasses>& measured) {
    const double apart_ms = measured.front().median_ms();
    BarGroup group = {.name = network, .bars = {}};
    chart_.series.clear();
    for (size_t i = 0; i < places.size(); ++i) {
      const MeasuredPasses& it = measured[i];
      const auto percent = [&](double ms) { return 100 * ms / apart_ms; };
      table_.rows.push_back(
          {network, places[i].name, fmt::format("{:.3f}", mebibytes(places[i].total_bytes)),
           fmt::format("{:.3f}", it.median_ms()),
           fmt::format("{:.3f} to {:.3f}", it.quantile_ms(0.25), it.quantile_ms(0.75)),
           fmt::format("{:+.1f}", percent(it.median_ms()) - 100)});
      if (has_misses_) {
        table_.rows.back().push_back(fmt::to_string(it.misses / it.times_ms.size()));
      }
      group.bars.push_back(BarValue{percent(it.median_ms()), percent(it.quantile_ms(0.25)),
                                    percent(it.quantile_ms(0.75))});
      chart_.series.push_back(places[i].name);
    }
    chart_.groups.push_back(std::move(group));
  }

  void move_to(Reproduction& made, const std::string& picture) {
    made.tables.push_back(std::move(table_));
    made.pictures.push_back({picture, svg_of(chart_)});
  }

 private:
  bool has_misses_;
  Table table_;
  BarChart chart_;
};

/// Of each places' pass, made by `make`.
template <typename Make>
auto passes_at(const std::vector<Places>& places, Make make)
    -> Result<std::vector<std::decay_t<decltype(*make(places.front()))>>> {
  std::vector<std::decay_t<decltype(*make(places.front()))>> passes;
  for (const Places& it : places) {
    auto pass = make(it);
    if (!pass) return forward_error(std::move(pass));
    passes.push_back(std::move(*pass));
  }
  return passes;
}

Status add_inference(Comparison& comparison, const std::string& name, double spend_s,
                     const std::optional<CacheMisses>& counter) {
  auto loaded = load_network(name);
  if (!loaded) return forward_error(std::move(loaded));
  const std::vector<Places> places = compared_places((*loaded)->layout.tensors);
  auto passes =
      passes_at(places, [&](const Places& it) { return InferencePass::make(*loaded, it); });
  if (!passes) return forward_error(std::move(passes));
  const auto measured = measure_in_turns(*passes, spend_s, counter);
  if (!measured) return tl::make_unexpected(measured.error());
  for (const InferencePass& it : *passes) {
    if (it.output() == passes->front().output()) continue;
    return fail(fmt::format("{}: outputs differ by where activations lie", name),
                "please report this: it is a bug in weightpager");
  }
  comparison.add(name, places, *measured);
  return {};
}

Status add_traffic(Comparison& comparison, const ActivationNetwork& network, double spend_s,
                   const std::optional<CacheMisses>& counter) {
  const auto tensors = network::published_activations(network.name);
  const std::vector<Places> places = compared_places(tensors);
  auto passes = passes_at(places, [&](const Places& it) { return TrafficPass::make(tensors, it); });
  if (!passes) return forward_error(std::move(passes));
  const auto measured = measure_in_turns(*passes, spend_s, counter);
  if (!measured) return tl::make_unexpected(measured.error());
  comparison.add(network.title, places, *measured);
  return {};
}

}  // namespace

Result<Reproduction> sharing_caches(const ReproduceSettings& settings) {
  Reproduction made;
  std::optional<CacheMisses> counter;
  if (auto opened = CacheMisses::open()) {
    counter = std::move(*opened);
  } else {
    made.lacks.push_back("Cache misses: " + opened.error().message + ".");
  }
  Comparison inferences(
      "Time of an inference",
      "Processor time. Published: up to 10 % faster, without network or machine. Networks of "
      "`weightpager model make` compute on one thread, with all weights in memory. Outputs are the "
      "same to the bit.",
      counter.has_value());
  std::vector<const char*> networks = {"squeezenet", "googlenet"};
  if (!settings.is_quick) networks.insert(networks.end(), {"resnet152", "densenet201", "yolov3"});
  for (const char* const name : networks) {
    const double spend_s = settings.is_quick ? 0.7 : 8;
    if (Status added = add_inference(inferences, name, spend_s, counter); !added)
      return forward_error(std::move(added));
  }
  inferences.move_to(made, "caches-inference");
  Comparison traffic(
      "Memory traffic of a pass",
      "Processor time. The paper's networks, without their arithmetic: the first operation of each "
      "tensor writes it, the last one reads it; one thread.",
      counter.has_value());
  for (const ActivationNetwork& network : activation_networks) {
    if (*network.name == '\0') continue;
    const double spend_s = settings.is_quick ? 0.2 : 2;
    if (Status added = add_traffic(traffic, network, spend_s, counter); !added)
      return forward_error(std::move(added));
  }
  traffic.move_to(made, "caches-traffic");
  return made;
}

}  // namespace weightpager::tools
