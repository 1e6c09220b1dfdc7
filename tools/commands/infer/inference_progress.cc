#include "tools/commands/infer/inference_progress.h"

#include <utility>

namespace weightpager::tools {

InferenceProgress::InferenceProgress(std::string name, const network::Network& network,
                                     const infer::Inference& inference, uint64_t planned_ns) {
  network_ = {.name = std::move(name),
              .weights_bytes = network.folded_bytes(),
              .least_window_bytes = inference.window_bytes(),
              .fixed_bytes = inference.activation_bytes() + inference.scratch_bytes(),
              .share_bytes = inference.window_bytes(),
              .held_bytes = inference.window_bytes(),
              .planned_ns = planned_ns};
}

void InferenceProgress::on_pass(const infer::Inference& inference, size_t pictures) {
  const MutexLock lock(mutex_);
  network_.read_bytes = inference.read_bytes();
  network_.inferences += pictures;
}

serve::ServingState InferenceProgress::state() const {
  const MutexLock lock(mutex_);
  const uint64_t all_bytes = network_.held_bytes + network_.fixed_bytes;
  return {.budget_bytes = all_bytes,
          .least_budget_bytes = all_bytes,
          .peak_bytes = all_bytes,
          .networks = {network_}};
}

}  // namespace weightpager::tools
