// The five networks of the TASO paper, measured on this machine, as the paper's questions.
//
// Problem. The paper's times are of one board and are in its pictures alone. Every figure needs
// the same networks, and measuring one takes a minute.
//
// Idea. Each primitive of each convolution is measured alone, on one thread, as the paper profiles
// its board's core. Measurements are kept in the user's cache (runtime/plan/profile_cache.h), and
// for all figures of a run in memory: to ask oneDNN anew which primitives there are takes seconds.
//
// Memory counts as in the paper: of a convolution its input, its output, its weights as they are
// packed, and its workspace (section 1: "input, output and working data"); sections 4.4 and 4.5 say
// whether the sum over all convolutions counts or the largest one. Weightpager itself needs less:
// weights, and one arena in which activations and workspace share memory.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/plan/baselines.h"
#include "runtime/plan/network_instance.h"
#include "runtime/plan/profile.h"
#include "runtime/plan/selection.h"
#include "tools/commands/plan/selection_run.h"
#include "tools/commands/reproduce/paper.h"

namespace weightpager::tools::taso {

/// That compute: the paper selects for one core.
inline constexpr int one_thread = 1;

struct NamedNetwork {
  /// Of described_networks().
  const char* name;
  const char* title;
};

inline constexpr std::array<NamedNetwork, 5> networks = {{{"alexnet", "AlexNet"},
                                                          {"googlenet", "GoogLeNet"},
                                                          {"resnet50", "ResNet-50"},
                                                          {"squeezenet", "SqueezeNet"},
                                                          {"vgg16", "VGG-D"}}};
inline constexpr const NamedNetwork& alexnet = networks[0];
inline constexpr const NamedNetwork& googlenet = networks[1];
inline constexpr const NamedNetwork& resnet = networks[2];
inline constexpr const NamedNetwork& squeezenet = networks[3];
inline constexpr const NamedNetwork& vgg = networks[4];

/// The networks of a figure that compares networks: the one of `--net`, with --quick GoogLeNet and
/// SqueezeNet, or all. The names are those of `settings`.
std::vector<NamedNetwork> networks_of(const ReproduceSettings& settings);

struct MeasuredNetwork {
  /// With the size of its input: "GoogLeNet, 224×224".
  std::string title;
  network::Network network;
  plan::Profile profile;
  plan::NetworkInstance made;
  plan::PrimitiveKinds kinds;
  /// All memory is held: Equations (13) and (14).
  plan::Instance whole_network;
  /// All memory is workspace: Equation (15). Reading weights takes no time, as in the paper.
  plan::Instance layer_by_layer;
};

/// The network, or the one of `--net`; with --quick for small pictures, which are measured in
/// seconds.
Result<std::shared_ptr<const MeasuredNetwork>> measured(const NamedNetwork& network,
                                                        const ReproduceSettings& settings);

/// A way to compute a network: one primitive everywhere, or what a planner finds.
struct NamedSelection {
  std::string title;
  plan::Selection selection;
  /// Convolutions by the primitive of the title, and by a fall-back.
  uint32_t by_it = 0;
  uint32_t by_others = 0;
};

/// The paper's four, kn2row, and oneDNN's direct code; those that this machine has. Direct is the
/// first.
Result<std::vector<NamedSelection>> one_primitive_each(const MeasuredNetwork& measured,
                                                       const plan::Instance& instance);

/// What the figures compare of one network, in the paper's memory of the whole network.
struct Compared {
  std::shared_ptr<const MeasuredNetwork> network;
  std::vector<NamedSelection> one_primitive;
  plan::Selection pbqp;
  /// The ends of the exact front.
  plan::Selection fastest;
  plan::Selection least_memory;

  double direct_ns() const { return one_primitive.front().selection.time_ns; }
  /// One primitive each; then "PBQP", "exact, least time" and "exact, least memory".
  std::vector<NamedSelection> all() const;
};

Result<Compared> compare(const NamedNetwork& network, const ReproduceSettings& settings);

/// Without oneDNN's own code, except for Winograd's: the kinds of primitives that the paper names.
plan::Instance with_paper_kinds(const MeasuredNetwork& measured, const plan::Instance& instance);

/// What weightpager needs for a selection: packed weights of convolutions, and the arena.
uint64_t weightpager_bytes(const MeasuredNetwork& measured, const plan::Selection& selection);

/// The network with random weights, to be run by a selection.
Result<SelectionRun> run_of(const MeasuredNetwork& measured, const plan::Selection& selection);

/// What is not here on this machine: a sentence, or nothing.
std::vector<std::string> lacks_of(std::span<const NamedSelection> selections);

inline constexpr const char* how_measured =
    "This machine, one thread: the sum of the primitives' times alone and of the changes of "
    "layout, as the paper's Equation (12). Memory is the paper's: input, output, packed weights "
    "and workspace of each convolution.";

}  // namespace weightpager::tools::taso
