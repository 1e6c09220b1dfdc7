// Runs a network on one image after the other, with only a small part of its weights in memory.
//
// Combines the modules of runtime/. The network says what to compute (network/). The window's use
// says which pieces of the weights are read, and when (window_use.h, pipeline/). A processor or a
// GPU computes each piece from the weights where they lie (backend.h, ops/). All activations share
// one arena (memory/).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/io/reader.h"
#include "runtime/infer/window_use.h"
#include "runtime/memory/activations.h"
#include "runtime/network/network.h"
#include "runtime/pipeline/executor.h"
#include "runtime/plan/joint_plan.h"

namespace weightpager::infer {

struct InferenceOptions {
  WindowRequest window;
  /// On processors: the code that computes each layer, from weights that were packed for it. Empty:
  /// the plain operations.
  std::vector<plan::LayerChoice> choices;
  /// Used instead of `choices` and `window`. Outlives `open`.
  const plan::JointPlan* plan = nullptr;
  /// The device that computes. It also replaces `window.device`.
  DeviceKind device = DeviceKind::cpu;
  /// Whether the next image's first layers are read while this image's last layers are computed.
  /// In blocks they never are.
  bool reads_across_inferences = true;
  /// Threads that compute, on processors.
  int threads = 1;
  /// Images that one pass over the weights may serve, each with activations of its own.
  uint32_t batch = 1;
  /// Opens a reader to use instead of io_uring and pread: for several networks on one disk
  /// (serve/disk_gate.h), and for tests. See ExecutorOptions.
  std::function<Result<std::unique_ptr<io::Reader>>(const io::ReaderOptions&)> open_reader;
  /// See ExecutorOptions.
  pipeline::Meanwhile beside_kernels;
  /// The sum of promised_bytes() of other inferences that the caller has opened and not run yet.
  /// They have not used all of their memory yet, so it still looks free.
  uint64_t promised_bytes = 0;
};

/// Memory of a GPU, as the difference of what its driver counts before and after. The driver counts
/// whole allocations. Both are 0 on processors.
struct DeviceMemoryUse {
  /// Memory that the window took.
  uint64_t weights_bytes = 0;
  /// Memory that the window, activations, scratch memory and libraries took.
  uint64_t all_bytes = 0;
};

/// Layers whose outputs are available after a run: the yolo layers, and the last layer.
std::vector<uint32_t> output_layers(const network::Network& network);

/// Not thread-safe. Always use it on the same thread, because OpenMP's threads belong to that
/// thread.
class Inference {
 public:
  /// `weights_path`: a .weights file or a packed file of this network. With choices or a plan: a
  /// file that was packed for them.
  static Result<std::unique_ptr<Inference>> open(const network::Network& network,
                                                 const std::string& weights_path,
                                                 const InferenceOptions& options);
  virtual ~Inference() = default;

  /// Runs one pass. `inputs`: one to `batch` images, each of the network's input shape. After an
  /// error there are no outputs, and the next run begins anew.
  virtual Status run(std::span<const std::span<const float>> inputs) = 0;

  /// The outputs of the last run, of yolo layers and of the last layer. The run must have ended
  /// without an error. Valid until the next run. `image`: the image's number in the batch.
  virtual const memory::Activations& activations(size_t image = 0) const = 0;

  /// The times of the last run, by unit of the window.
  virtual const pipeline::Timeline& times() const = 0;
  /// The times that reads, copies and kernels took in the last run, summed for each layer. Only in
  /// the sequential pipeline did each of them run alone. Of a block, its first layer has all times.
  virtual std::vector<pipeline::UnitCosts> layer_costs() const = 0;

  /// The costs of the layers as parts of blocks, as in block_use.h.
  virtual Result<budget::BlockedNetwork> blocked_network(
      std::span<const pipeline::UnitCosts> layer_costs,
      const budget::PerBlock& per_block) const = 0;

  /// Changes the window from the next run on. The old window is freed first, so pinned weights are
  /// read again even if they were pinned before. After an error only another `set_window` may
  /// follow.
  virtual Status set_window(const WindowRequest& request) = 0;
  virtual const WindowUse& window() const = 0;
  /// Memory for weights, for the activations of the whole batch, and for scratch memory of the
  /// operations.
  virtual uint64_t window_bytes() const = 0;
  virtual uint64_t activation_bytes() const = 0;
  virtual uint64_t scratch_bytes() const = 0;
  /// The sum of these three.
  uint64_t promised_bytes() const { return window_bytes() + activation_bytes() + scratch_bytes(); }
  virtual DeviceMemoryUse device_memory() const = 0;
  virtual uint64_t read_bytes() const = 0;
  /// The processor time per byte that the present window's reads have cost so far.
  virtual double reading_ns_per_byte() const = 0;
  /// "io_uring" or "pread". `is_direct`: whether reads go past the page cache.
  virtual const char* reader_name() const = 0;
  virtual bool is_direct() const = 0;
};

}  // namespace weightpager::infer
