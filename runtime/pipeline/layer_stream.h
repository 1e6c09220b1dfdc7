// A model's layers, one after the other, pass after pass, in a window: for programs that compute
// with weights themselves and want them in memory only while they do.
//
// Problem. Such a program asks for a layer, computes, and is done with it. It should wait only for
// a disk that is slower than its computation; it may want several layers at once, give them back in
// any order, jump ahead, stop in the middle of a pass. It should never have to know what a ring is.
//
// Idea. A layer is a unit of the two-stage pipeline (schedule.h): acquiring one takes units until
// it comes, releasing finishes it. The ring is freed in the order in which it was filled, so what
// is released behind a layer that is still held waits for that one; and what cannot fit beside
// what is held is found by adding up sizes, before anybody waits for it. A model that fits the
// window as a whole is pinned, and read once.
//
// Start reading at `LayerStream::acquire`.
//
// Cost: one thread; per layer two switches between threads, and none that is waited for if the
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
  /// At least the largest layer, rounded out to pages of the file. What more there is lets reads
  /// go on while layers are held.
  uint64_t window_bytes = 0;
  /// In the order of a pass; they may overlap. Empty: those of the model in the file.
  std::vector<LayerRange> layers;
  /// Tests only: as in ExecutorOptions.
  std::function<Result<std::unique_ptr<io::Reader>>(const io::ReaderOptions&)> open_reader;
};

struct LayerStreamStatistics {
  uint64_t window_bytes = 0;
  uint64_t read_bytes = 0;
  /// In `acquire`, waiting for bytes.
  uint64_t stall_ns = 0;
  /// That were begun.
  uint64_t passes = 0;
};

/// Thread-safe. While one thread waits in `acquire`, others that acquire or advise wait for it;
/// `release` never waits.
class LayerStream {
 public:
  /// Begins to read.
  static Result<std::unique_ptr<LayerStream>> open(LayerStreamOptions options);
  /// No layer may be used any more. Waits for reads in flight.
  ~LayerStream() = default;

  /// Waits for the layer's bytes: the next time that it comes, in this pass or the one after it.
  /// Layers before it are let go. The bytes are there, contiguous and as in the file, until
  /// `release`; of a layer without weights there are none.
  ///
  /// Fails, and changes nothing, if the layer is held already or does not fit beside those that
  /// are. After a read error the pass is over: layers that are held stay until they are released,
  /// and when all are, the next `acquire` begins a new pass.
  Result<std::span<const std::byte>> acquire(uint32_t layer);
  /// In any order. Fails if the layer is not held.
  Status release(uint32_t layer);

  /// Advice: `layer` is the next that will be acquired; those before it are let go, and not read if
  /// that is not too late.
  Status will_need(uint32_t layer);
  /// Advice: no pass follows the present one (or the first, if none has begun), so it is not read
  /// ahead for one. If one follows all the same, it is like any other.
  void last_pass();

  const std::vector<LayerRange>& layers() const { return layers_; }
  LayerStreamStatistics statistics() const;

 private:
  /// Weights are used as they are read, by the caller.
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

  // Of who moves on in the order: `acquire` and advice. Locked before `mutex_`.
  Mutex order_mutex_;
  UnitNumber next_ WP_GUARDED_BY(order_mutex_) = 0;  // that was not taken yet
  // Of those that units are numbered by: since the last failure.
  uint64_t passes_begun_ WP_GUARDED_BY(order_mutex_) = 0;
  std::optional<uint64_t> last_pass_ WP_GUARDED_BY(order_mutex_);

  mutable Mutex mutex_;
  std::deque<Taken> taken_ WP_GUARDED_BY(mutex_);       // in order; the first one is held
  bool has_pass_failed_ WP_GUARDED_BY(mutex_) = false;  // that layers are still held of
  std::atomic<uint64_t> passes_{0};
  std::atomic<uint64_t> stall_ns_{0};

  std::unique_ptr<Executor> executor_;
};

}  // namespace weightpager::pipeline
