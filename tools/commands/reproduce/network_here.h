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

#include <optional>
#include <string>
#include <utility>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "runtime/network/network.h"
#include "runtime/network/resolution.h"
#include "tools/commands/reproduce/paper.h"

namespace weightpager::tools {

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

/// The machine, for notes under tables.
std::string machine_note(const ReproduceSettings& settings);

}  // namespace weightpager::tools
