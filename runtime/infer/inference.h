// Runs a network on one image after the other, with a sliver of its weights in memory.
//
// Ties the rooms together: the network says what to compute (network/), the window's use which
// pieces of it are read when (window_use.h, pipeline/), a processor or a GPU computes each piece
// from the weights where they lie (backend.h, ops/), and all activations share one arena (memory/).
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
  /// How to compute, on processors: by layer, from weights that were packed for it. Empty: plainly.
  std::vector<plan::LayerChoice> choices;
  /// Instead of `choices` and `window`. Outlives `open`.
  const plan::JointPlan* plan = nullptr;
  /// What computes. `window.device` follows it.
  DeviceKind device = DeviceKind::cpu;
  /// Begin with the next image's first layers while the last ones of this one are computed.
  bool reads_across_inferences = true;
  /// On processors.
  int threads = 1;
  /// Images that one pass over the weights may serve, each with activations of its own.
  uint32_t batch = 1;
  /// What reads, where it shall be neither io_uring nor pread: one disk for several networks
  /// (serve/disk_gate.h), and tests. See ExecutorOptions.
  std::function<Result<std::unique_ptr<io::Reader>>(const io::ReaderOptions&)> open_reader;
  /// See ExecutorOptions.
  pipeline::Meanwhile beside_kernels;
  /// Of other inferences that the caller has opened and not run yet (promised_bytes()): memory that
  /// looks free, and is not.
  uint64_t promised_bytes = 0;
};

/// Memory of a GPU, as its driver counts it before and after: in whole allocations. Nothing on
/// processors.
struct DeviceMemoryUse {
  /// What the window took of it.
  uint64_t weights_bytes = 0;
  /// With activations, scratch memory and what the libraries take.
  uint64_t all_bytes = 0;
};

/// Layers whose outputs are there at the end: those of kind yolo, and the last.
std::vector<uint32_t> output_layers(const network::Network& network);

/// One thread at a time, always the same: OpenMP's threads belong to it.
class Inference {
 public:
  /// `weights_path`: a .weights file or a packed one, of this network; with choices one that
  /// was packed for them.
  static Result<std::unique_ptr<Inference>> open(const network::Network& network,
                                                 const std::string& weights_path,
                                                 const InferenceOptions& options);
  virtual ~Inference() = default;

  /// One pass. `inputs`: of one to `batch` images, each of the network's input shape. After an
  /// error there are no outputs, and the next run begins anew.
  virtual Status run(std::span<const std::span<const float>> inputs) = 0;

  /// What comes out of the last run, which ended well: outputs of yolo layers and of the last
  /// layer. Valid until the next run.
  /// `image`: its place in the batch.
  virtual const memory::Activations& activations(size_t image = 0) const = 0;

  /// Of the last run, by piece.
  virtual const pipeline::Timeline& times() const = 0;
  /// Of the last run, by layer: what reads, copies and kernels took, one by one only in the
  /// sequential pipeline.
  virtual std::vector<pipeline::UnitCosts> layer_costs() const = 0;

  /// From the next run on; what the former window held is given back first, and read again where it
  /// is pinned in this one. After an error only another `set_window` may follow.
  virtual Status set_window(const WindowRequest& request) = 0;
  virtual const WindowUse& window() const = 0;
  /// Memory for weights, for activations of the whole batch, and for what operations need beside
  /// these.
  virtual uint64_t window_bytes() const = 0;
  virtual uint64_t activation_bytes() const = 0;
  virtual uint64_t scratch_bytes() const = 0;
  /// These three.
  uint64_t promised_bytes() const { return window_bytes() + activation_bytes() + scratch_bytes(); }
  virtual DeviceMemoryUse device_memory() const = 0;
  virtual uint64_t read_bytes() const = 0;
  /// Of the window's reads so far: what they cost processors.
  virtual double reading_ns_per_byte() const = 0;
  /// "io_uring" or "pread", and whether past the page cache.
  virtual const char* reader_name() const = 0;
  virtual bool is_direct() const = 0;
};

}  // namespace weightpager::infer
