// A network of this machine's own for what is measured: made, measured and removed.
//
// Problem. Figures of this machine need a network with weights on a disk. No user has one at hand,
// and measured from memory (tmpfs) reads would say nothing.
//
// Idea. `model make` makes it, with a seed, in a folder of its own beside the figures, or under
// TMPDIR if the figures lie on no disk. It is removed when the figure is done; what a killed run
// left behind, the next one removes. Cost: some seconds, and the network's size on the disk for as
// long.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "runtime/infer/inference.h"
#include "runtime/infer/layer_measurement.h"
#include "runtime/infer/pipeline_comparison.h"
#include "runtime/network/network.h"
#include "runtime/network/resolution.h"
#include "tools/commands/reproduce/paper.h"

namespace weightpager::tools::demand_layering {

/// Movable. Removes its folder when it is destroyed.
class NetworkHere {
 public:
  /// Makes it in a new folder within `parent`.
  static Result<NetworkHere> make(const std::string& parent, const std::string& name);

  NetworkHere(NetworkHere&& other) noexcept;
  NetworkHere& operator=(NetworkHere&&) = delete;
  ~NetworkHere();

  const std::string& name() const { return name_; }
  const network::Network& network() const { return network_; }
  const std::string& weights_path() const { return weights_path_; }
  /// Fails if the network cannot take pictures of that size.
  Result<network::Network> at(const network::Resolution& resolution) const;

 private:
  NetworkHere(std::string folder, OwnedFd lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}

  std::string folder_;
  /// Nobody removes the folder while it is locked.
  OwnedFd lock_;
  std::string name_;
  std::string description_path_;
  std::string weights_path_;
  network::Network network_;
};

/// The folder of the figures, or TMPDIR: the first that is on a disk that can be read past the page
/// cache.
std::optional<std::string> folder_on_disk(const ReproduceSettings& settings);
/// What a figure is that lacks such a folder.
Reproduction without_disk(const ReproduceSettings& settings);

/// What `make` measures of the network that the settings name: without a name YOLOv4, or quickly
/// SqueezeNet. Where no folder is on a disk, the figure lacks everything, and says so.
Result<Reproduction> measured_here(
    const ReproduceSettings& settings,
    const std::function<Result<Reproduction>(const NetworkHere& here)>& make);

/// What each layer cost in each of `repeats` runs.
Result<infer::LayerRuns> layers_here(const ReproduceSettings& settings, const NetworkHere& here,
                                     int repeats);

/// The network in one pipeline; each inference begins with an empty window, as in the paper.
Result<std::unique_ptr<infer::Inference>> open_here(const ReproduceSettings& settings,
                                                    const NetworkHere& here,
                                                    pipeline::Pipeline which);

/// All pipelines of the paper in turns, `inferences` of each, and a line of progress.
Result<infer::Comparison> compare_here(const ReproduceSettings& settings,
                                       const network::Network& network, const NetworkHere& here,
                                       infer::ComparisonOptions options);

/// The machine, for notes under tables.
std::string machine_note(const ReproduceSettings& settings);

}  // namespace weightpager::tools::demand_layering
