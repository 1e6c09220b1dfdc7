// Streams a model's layers through a window, one after the other, pass after pass: for programs
// that compute with the weights themselves and want them in memory only while they compute.
//
// Problem. Such a program asks for a layer, computes, and gives the layer back. It should wait only
// if the disk is slower than its computation. It may want several layers at once, give them back in
// any order, jump ahead, or stop in the middle of a pass. It should never have to know what a ring
// is.
//
// Idea. A layer is a unit of the two-stage pipeline (schedule.h): `acquire` takes units until the
// layer comes, and `release` finishes the layer's unit. The ring is freed in the order in which it
// was filled, so the space of a released layer stays taken while an earlier layer is held.
// `acquire` adds up sizes before it waits, and refuses a layer that cannot fit beside the held
// ones. A model that fits the window as a whole is pinned, and read once.
//
// Start reading at `LayerStream::acquire`.
//
// Cost: one thread, and per layer two switches between threads. `acquire` waits for neither if the
// layer is there already.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pager/base/mutex.h"
#include "pager/base/result.h"
#include "pager/io/model_file.h"
#include "runtime/pipeline/executor.h"
#include "runtime/pipeline/layer_ranges.h"

namespace weightpager::pipeline {

struct LayerStreamOptions {
  std::string path;
  /// At least the largest layer, rounded out to pages of the file. A larger window lets reads go on
  /// while layers are held.
  uint64_t window_bytes = 0;
  /// The layers in the order of a pass; they may overlap. Empty: the layers of the model in the
  /// file.
  std::vector<LayerRange> layers;
  /// Tests only: as in ExecutorOptions.
  std::function<Result<std::unique_ptr<io::Reader>>(const io::ReaderOptions&)> open_reader;
};

struct LayerStreamStatistics {
  uint64_t window_bytes = 0;
  uint64_t read_bytes = 0;
  /// Time that `acquire` waited for bytes.
  uint64_t stall_ns = 0;
  /// Passes that were begun.
  uint64_t passes = 0;
};

/// Thread-safe. While one thread waits in `acquire`, other threads wait for it in `acquire`,
/// `will_need` and `last_pass`; `release` never waits.
class LayerStream {
 public:
  /// Opens the file and begins to read. Fails if the file cannot be read or the window is too
  /// small.
  static Result<std::unique_ptr<LayerStream>> open(LayerStreamOptions options);
  /// Waits for reads in flight. The bytes of all layers are gone afterwards.
  ~LayerStream() = default;

  /// Waits for the layer's bytes, and returns them. The layer is the next one of this number in the
  /// order, in this pass or the one after it; the layers before it are let go. The bytes are
  /// contiguous, as in the file, and stay until `release`. A layer without weights has no bytes.
  ///
  /// Fails, and changes nothing, if the layer is held already or does not fit beside the layers
  /// that are held. A read error ends the pass. Held layers stay until they are released; when all
  /// are released, the next `acquire` begins a new pass.
  Result<std::span<const std::byte>> acquire(uint32_t layer);
  /// Layers may be released in any order. Fails if the layer is not held.
  Status release(uint32_t layer);

  /// Advice: `layer` is the next layer that will be acquired. The layers before it are let go; they
  /// are not read if it is not too late for that.
  Status will_need(uint32_t layer);
  /// Advice: no pass follows the present one (or the first, if none has begun), so nothing is read
  /// ahead for a next pass. If a pass follows all the same, it is like any other.
  void last_pass();

  const std::vector<LayerRange>& layers() const { return layers_; }
  LayerStreamStatistics statistics() const;

 private:
  /// Does nothing: the caller uses the weights as they were read.
  class NoWork final : public UnitWork {
   public:
    Status take_in(uint32_t, std::span<std::byte>) override { return {}; }
    Status compute(uint32_t, const std::byte*, const Meanwhile&) override { return {}; }
  };
  /// A unit of the executor that was taken and not finished.
  struct Taken {
    UnitTask task;
    bool is_held = false;
  };

  LayerStream(io::ModelFile file, std::vector<LayerRange> layers)
      : file_(std::move(file)), layers_(std::move(layers)) {}
  Status start(const LayerStreamOptions& options);
  std::string describe(uint64_t layer) const;

  Status check_layer(uint32_t layer) const;
  Status check_pass();
  Status check_room(uint32_t layer) const WP_REQUIRES(order_mutex_);
  UnitNumber next_of(uint32_t layer) const WP_REQUIRES(order_mutex_);
  void go_to(UnitNumber unit) WP_REQUIRES(order_mutex_);
  void begin_pass() WP_REQUIRES(order_mutex_);
  Result<UnitTask> take(UnitNumber wanted);
  void keep(const UnitTask& task, bool is_held);
  void end_failed_pass() WP_REQUIRES(order_mutex_);
  void finish_released() WP_REQUIRES(mutex_);
  std::string held_layers() const WP_REQUIRES(mutex_);

  const io::ModelFile file_;
  const std::vector<LayerRange> layers_;
  std::vector<UnitBytes> units_;
  uint64_t ring_bytes_ = 0;
  uint64_t window_bytes_ = 0;
  NoWork work_;

  // Held while `acquire` and advice move on in the order of layers. Locked before `mutex_`.
  Mutex order_mutex_;
  UnitNumber next_ WP_GUARDED_BY(order_mutex_) = 0;  // the first unit that was not taken yet
  // Passes since the last failure; the numbers of units count these.
  uint64_t passes_begun_ WP_GUARDED_BY(order_mutex_) = 0;
  std::optional<uint64_t> last_pass_ WP_GUARDED_BY(order_mutex_);

  mutable Mutex mutex_;
  std::deque<Taken> taken_ WP_GUARDED_BY(mutex_);       // in order; the first one is held
  bool has_pass_failed_ WP_GUARDED_BY(mutex_) = false;  // and some of its layers may be held
  std::atomic<uint64_t> passes_{0};
  std::atomic<uint64_t> stall_ns_{0};

  std::unique_ptr<Executor> executor_;
};

}  // namespace weightpager::pipeline
