// The progress of `weightpager infer`, for clients of its control socket. It is shown as a network
// that is served alone, in its own budget. The thread that infers writes it between passes.
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
  /// `planned_ns`: the planned time of a pass; 0 without a plan.
  InferenceProgress(std::string name, const network::Network& network,
                    const infer::Inference& inference, uint64_t planned_ns);

  void on_pass(const infer::Inference& inference, size_t pictures);
  /// May be called by any thread.
  serve::ServingState state() const;

 private:
  mutable Mutex mutex_;
  serve::NetworkState network_ WP_GUARDED_BY(mutex_);
};

}  // namespace weightpager::tools
