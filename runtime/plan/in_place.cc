#include "runtime/plan/in_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "pager/base/assert.h"
#include "runtime/ops/cpu/convolution.h"

namespace weightpager::plan {
namespace {

using network::Layer;
using network::Network;
using ops::Layout;

std::string convolution_part(const std::string& key, const CandidateTraits& traits) {
  return fmt::format("{} by {} {}-{}", key, traits.name, ops::layout_name(traits.layout_in),
                     ops::layout_name(traits.layout_out));
}

std::string change_part(const std::string& key, Layout from, Layout to) {
  return fmt::format("{} from {} to {}", key, ops::layout_name(from), ops::layout_name(to));
}

std::string other_part(const std::string& key, Layout layout) {
  return fmt::format("{} in {}", key, ops::layout_name(layout));
}

// The index of a layout in arrays by layout.
size_t place_of(Layout layout) { return static_cast<size_t>(layout); }

const MeasuredCandidate& measured_by(const std::vector<MeasuredCandidate>& candidates,
                                     const LayerChoice& choice) {
  const std::string name = choice.has_plain_weights() ? ops::in_tiles : choice.computed_by;
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const auto& it) {
    return it.traits.name == name && it.traits.layout_in == choice.layout_in &&
           it.traits.layout_out == choice.layout_out;
  });
  WP_ASSERT(found != candidates.end());
  return *found;
}

class PartsFinder {
 public:
  PartsFinder(const Network& network, const Profile& profile, std::span<const LayerChoice> choices)
      : network_(network), profile_(profile), choices_(choices) {}

  LayerParts find(uint32_t layer) const {
    LayerParts parts;
    add_changes(layer, parts);
    const Layer& it = network_.layers[layer];
    const bool is_convolution = std::holds_alternative<network::Convolutional>(it.operation);
    if (is_convolution) {
      const std::string key = convolution_key(it);
      const MeasuredCandidate& measured =
          measured_by(profile_.convolutions.at(key), choices_[layer]);
      parts.convolution.push_back({convolution_part(key, measured.traits), measured.time_ns});
    }
    const std::string key = other_key(it);
    if (key.empty()) return parts;
    const bool is_in_tiles = is_convolution && choices_[layer].has_plain_weights();
    if (is_in_tiles && ops::applies_activation(it)) return parts;
    // An activation function takes the values in any order, so its layout makes no difference.
    const Layout layout = is_convolution ? Layout::nchw : choices_[layer].layout_out;
    parts.other.push_back({other_part(key, layout), profile_.others.at(key)[place_of(layout)]});
    return parts;
  }

 private:
  void add_changes(uint32_t layer, LayerParts& parts) const {
    const Layout to = choices_[layer].layout_in;
    for (const uint32_t source : network_.layers[layer].inputs) {
      const Layout from = layout_given(choices_, source);
      if (from == to) continue;
      const std::string key = picture_key(network_.shape_of(source));
      const double time_ns = profile_.changes.at(key)[place_of(from)][place_of(to)];
      parts.changes.push_back({change_part(key, from, to), time_ns});
    }
  }

  const Network& network_;
  const Profile& profile_;
  const std::span<const LayerChoice> choices_;
};

double sum_ns(const std::vector<Part>& parts) {
  double sum = 0;
  for (const Part& it : parts) sum += it.time_ns;
  return sum;
}

// Averages of parts that occur several times.
class Averages {
 public:
  void add(const std::vector<Part>& parts, double took_ns) {
    const double alone_ns = sum_ns(parts);
    for (const Part& it : parts) {
      const double share =
          alone_ns > 0 ? it.time_ns / alone_ns : 1 / static_cast<double>(parts.size());
      Sum& sum = sums_[it.key];
      sum.took_ns += took_ns * share;
      sum.times += 1;
    }
  }

  InPlaceTimes averages() const {
    InPlaceTimes times;
    for (const auto& [key, sum] : sums_) times[key] = sum.took_ns / sum.times;
    return times;
  }

 private:
  struct Sum {
    double took_ns = 0;
    double times = 0;
  };
  std::map<std::string, Sum> sums_;
};

// The ratio of times in place to times alone: of a kind, of a group of kinds, of everything.
class Ratios {
 public:
  void add(const std::string& group, const std::string& kind, double alone_ns, double took_ns) {
    for (Sum* const sum : {&kinds_[group + kind], &groups_[group], &all_}) {
      sum->alone_ns += alone_ns;
      sum->took_ns += took_ns;
    }
  }

  double of(const std::string& group, const std::string& kind) const {
    if (const auto ratio = known(kinds_, group + kind)) return *ratio;
    if (const auto ratio = known(groups_, group)) return *ratio;
    return all_.alone_ns > 0 ? all_.took_ns / all_.alone_ns : 1;
  }

 private:
  struct Sum {
    double alone_ns = 0;
    double took_ns = 0;
  };
  static std::optional<double> known(const std::map<std::string, Sum>& sums,
                                     const std::string& name) {
    const auto found = sums.find(name);
    if (found == sums.end() || found->second.alone_ns <= 0) return std::nullopt;
    return found->second.took_ns / found->second.alone_ns;
  }

  std::map<std::string, Sum> kinds_;
  std::map<std::string, Sum> groups_;
  Sum all_;
};

// Calls visit(group, kind, key, time_ns&) for each time in the profile.
template <typename Visit>
void visit_parts(Profile& profile, Visit visit) {
  for (auto& [key, candidates] : profile.convolutions) {
    for (MeasuredCandidate& it : candidates) {
      visit("convolution ", it.traits.name, convolution_part(key, it.traits), it.time_ns);
    }
  }
  for (auto& [key, times] : profile.changes) {
    for (const Layout from : ops::all_layouts) {
      for (const Layout to : ops::all_layouts) {
        if (from == to) continue;
        visit("change", "", change_part(key, from, to), times[place_of(from)][place_of(to)]);
      }
    }
  }
  for (auto& [key, times] : profile.others) {
    const std::string kind = key.substr(0, key.find(' '));
    for (const Layout layout : ops::all_layouts) {
      visit("other ", kind, other_part(key, layout), times[place_of(layout)]);
    }
  }
}

// In a layout that a layer does not work in, the layer takes as long as in Darknet's; an activation
// function takes as long in every layout. Such times are exactly equal in profiles, so equality
// tells them.
void keep_what_is_darknets(const Profile& alone, Profile& profile) {
  constexpr size_t darknets = 0;
  for (auto& [key, times] : profile.others) {
    const LayoutTimes& before = alone.others.at(key);
    for (size_t layout = 0; layout < times.size(); ++layout) {
      if (before[layout] == before[darknets]) times[layout] = times[darknets];
    }
  }
}

}  // namespace

double LayerParts::time_ns() const { return sum_ns(changes) + sum_ns(convolution) + sum_ns(other); }

std::vector<LayerParts> parts_of(const Network& network, const Profile& profile,
                                 std::span<const LayerChoice> choices) {
  WP_ASSERT(choices.size() == network.layers.size());
  const PartsFinder finder(network, profile, choices);
  std::vector<LayerParts> layers;
  for (uint32_t i = 0; i < network.layers.size(); ++i) layers.push_back(finder.find(i));
  return layers;
}

double time_ns_of(std::span<const LayerParts> layers) {
  double sum = 0;
  for (const LayerParts& it : layers) sum += it.time_ns();
  return sum;
}

bool are_known(std::span<const LayerParts> layers, const InPlaceTimes& times) {
  const auto is_known = [&](const Part& it) { return times.count(it.key) > 0; };
  return std::all_of(layers.begin(), layers.end(), [&](const LayerParts& it) {
    return std::all_of(it.changes.begin(), it.changes.end(), is_known) &&
           std::all_of(it.convolution.begin(), it.convolution.end(), is_known) &&
           std::all_of(it.other.begin(), it.other.end(), is_known);
  });
}

InPlaceTimes times_in_run(std::span<const LayerParts> layers, std::span<const RunTimes> took) {
  WP_ASSERT(layers.size() == took.size());
  Averages averages;
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerParts& it = layers[i];
    averages.add(it.changes, took[i].changes_ns);
    if (it.convolution.empty() || took[i].others_ns > 0) {
      averages.add(it.convolution, took[i].convolutions_ns);
      averages.add(it.other, took[i].others_ns);
      continue;
    }
    // A convolution that applies its activation function itself, in one measured time.
    std::vector<Part> both = it.convolution;
    both.insert(both.end(), it.other.begin(), it.other.end());
    averages.add(both, took[i].convolutions_ns);
  }
  return averages.averages();
}

Profile in_place(const Profile& alone, const InPlaceTimes& seen) {
  Profile profile = alone;
  profile.in_place.clear();
  Ratios ratios;
  visit_parts(profile, [&](const char* group, const std::string& kind, const std::string& key,
                           double alone_ns) {
    const auto found = seen.find(key);
    if (found != seen.end()) ratios.add(group, kind, alone_ns, found->second);
  });
  visit_parts(profile, [&](const char* group, const std::string& kind, const std::string& key,
                           double& time_ns) {
    const auto found = seen.find(key);
    time_ns = found != seen.end() ? found->second : time_ns * ratios.of(group, kind);
  });
  keep_what_is_darknets(alone, profile);
  return profile;
}

InPlaceTimes at_pace_of(const InPlaceTimes& then, const Profile& alone, const InPlaceTimes& now) {
  InPlaceTimes both;
  for (const auto& [key, time_ns] : then) {
    if (now.count(key) > 0) both[key] = time_ns;
  }
  Profile before = in_place(in_place(alone, now), both);
  InPlaceTimes times;
  visit_parts(before, [&](const char*, const std::string&, const std::string& key, double time_ns) {
    if (now.count(key) > 0) times[key] = time_ns;
  });
  return times;
}

}  // namespace weightpager::plan
