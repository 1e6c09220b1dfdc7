// How far `weightpager infer` is, for whoever asks its control socket: as a network that is served
// alone, in the budget that it has. Written between passes by the thread that infers.
#pragma once

#include <cstdint>
#include <string>

#include "pager/base/mutex.h"
#include "runtime/infer/inference.h"
#include "runtime/network/network.h"
#include "runtime/serve/serving.h"

namespace weightpager::tools {

class InferenceProgress {
 public:
  /// `planned_ns`: what a pass shall take; 0: there is no plan.
  InferenceProgress(std::string name, const network::Network& network,
                    const infer::Inference& inference, uint64_t planned_ns);

  void on_pass(const infer::Inference& inference, size_t pictures);
  /// Any thread.
  serve::ServingState state() const;

 private:
  mutable Mutex mutex_;
  serve::NetworkState network_ WP_GUARDED_BY(mutex_);
};

}  // namespace weightpager::tools
