// The times of convolutions and changes of layout on a machine, and their text form.
//
// Times hold for one kind of processor, one version of oneDNN and one number of threads. The text
// names these, and a profile of another machine is refused. A text that is no profile is refused,
// too: it may come from anyone who can write to a user's cache.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/ops/cpu/convolution_candidate.h"

namespace weightpager::plan {

using CandidateTraits = ops::ConvolutionCandidate::Traits;

struct MeasuredCandidate {
  CandidateTraits traits;
  double time_ns = 0;
};

/// By two layouts, in ns: change[from][to].
inline constexpr size_t layout_count = ops::all_layouts.size();
using LayoutChangeTimes = std::array<std::array<double, layout_count>, layout_count>;
/// By layout, in ns. In a layout that a layer does not work in, its time is that in Darknet's
/// layout, because its inputs are brought into that one.
using LayoutTimes = std::array<double, layout_count>;
/// By a part's key (in_place.h), in ns.
using InPlaceTimes = std::map<std::string, double>;

struct Profile {
  /// In words, everything that times depend on.
  std::string machine;
  /// By convolution_key(); in the order of convolution_candidates().
  std::map<std::string, std::vector<MeasuredCandidate>> convolutions;
  /// By picture_key().
  std::map<std::string, LayoutChangeTimes> changes;
  /// By other_key(): the parts that are not convolutions, in ns. A library may have fast code for
  /// only some layouts, such as oneDNN's for max-pools without AVX-512:
  /// docs/explanation/planning.md.
  std::map<std::string, LayoutTimes> others;
  /// By network_key(): the times of parts of layers in runs of that network. All times above are of
  /// layers alone.
  std::map<std::string, InPlaceTimes> in_place;
};

/// "64x56x56 192 filters 3x3 stride 1 padding 1 groups 1".
std::string convolution_key(const network::Layer& layer);
/// "64x56x56".
std::string picture_key(const network::Shape& shape);

/// By its layers and the size of its input: "18f0c3b42ab11b3c of 3x224x224".
std::string network_key(const network::Network& network);

/// A layer without its convolution: "maxpool 64x112x112 to 64x56x56, …". For a convolution, its
/// activation function; "" where it has none.
std::string other_key(const network::Layer& layer);

/// The time in the fastest layout.
double fastest_ns(const LayoutTimes& times);

std::string profile_text(const Profile& profile);

/// Fails if the text is no profile of that machine. `name` is what errors call the text.
Result<Profile> parse_profile(std::string_view text, const std::string& machine,
                              const std::string& name);

}  // namespace weightpager::plan
