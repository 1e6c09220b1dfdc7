// What convolutions and changes of layout take on a machine, and its text form.
//
// Times hold for one kind of processor, one version of oneDNN and one number of threads; these are
// in the text, and a profile of another machine is refused. So is what is not a profile at all: the
// text may come from anyone who can write to a user's cache.
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

/// By two layouts: change[from][to].
inline constexpr size_t layout_count = ops::all_layouts.size();
using LayoutChangeTimes = std::array<std::array<double, layout_count>, layout_count>;
/// By layout. Of layouts in which a layer does not work: as in Darknet's, into which it is brought.
using LayoutTimes = std::array<double, layout_count>;
/// By a name of what takes it (in_place.h), in ns.
using InPlaceTimes = std::map<std::string, double>;

struct Profile {
  /// Whatever times depend on, in words.
  std::string machine;
  /// By convolution_key(); each as convolution_candidates() offers them.
  std::map<std::string, std::vector<MeasuredCandidate>> convolutions;
  /// By picture_key().
  std::map<std::string, LayoutChangeTimes> changes;
  /// By other_key(): what is not a convolution itself, in ns. A library may have fast code for some
  /// layouts only, as oneDNN has for max-pools without AVX-512: docs/explanation/planning.md.
  std::map<std::string, LayoutTimes> others;
  /// All of the above is of layers alone. By network_key(): what parts of layers took in runs of
  /// that network.
  std::map<std::string, InPlaceTimes> in_place;
};

/// "64x56x56 192 filters 3x3 stride 1 padding 1 groups 1".
std::string convolution_key(const network::Layer& layer);
/// "64x56x56".
std::string picture_key(const network::Shape& shape);

/// Of its layers and the size of its input: "18f0c3b42ab11b3c of 3x224x224".
std::string network_key(const network::Network& network);

/// A layer without its convolution: "maxpool 64x112x112 to 64x56x56, …"; for a convolution what
/// remains is its activation function, and "" where it has none.
std::string other_key(const network::Layer& layer);

/// In the layout in which it takes least.
double fastest_ns(const LayoutTimes& times);

std::string profile_text(const Profile& profile);

/// Fails if it is no profile of that machine. `name` is what errors call the text.
Result<Profile> parse_profile(std::string_view text, const std::string& machine,
                              const std::string& name);

}  // namespace weightpager::plan
