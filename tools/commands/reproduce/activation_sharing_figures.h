// What the files of Pisarchyk & Lee's figures share.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/memory/plan.h"
#include "tools/commands/reproduce/paper.h"

namespace weightpager::tools {

struct ActivationNetwork {
  const char* title;
  /// Of network::published_activations(). Empty: its graph is not known.
  const char* name;
};

/// The columns of the paper's tables.
inline constexpr std::array<ActivationNetwork, 6> activation_networks = {
    {{"MobileNet v1", "mobilenet_v1"},
     {"MobileNet v2", "mobilenet_v2"},
     {"DeepLab v3", "deeplab_v3"},
     {"Inception v3", "inception_v3"},
     {"PoseNet", "posenet"},
     {"BlazeFace", ""}}};

/// Where each tensor begins: in the block, or where its object lies if objects lie in a row.
std::vector<uint64_t> begins_of(const memory::OffsetPlan& plan);
std::vector<uint64_t> begins_of(const memory::SharedObjectsPlan& plan);

/// Sizes that are known late.
Result<Reproduction> sharing_dynamic(const ReproduceSettings& settings);
/// The time that caches save, on this machine.
Result<Reproduction> sharing_caches(const ReproduceSettings& settings);

}  // namespace weightpager::tools
