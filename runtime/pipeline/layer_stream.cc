#include "runtime/pipeline/layer_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "pager/model/model.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager::pipeline {
namespace {

Result<std::vector<LayerRange>> layers_of_model(const std::string& path) {
  auto model = model::open_model_file(path);
  if (!model) return forward_error(std::move(model));
  return layer_ranges(*model);
}

// The layer's range, rounded out to what direct reads require.
UnitBytes unit_of(const LayerRange& layer) {
  if (layer.length_bytes == 0) return {};
  const uint64_t begin_bytes = round_down(layer.offset_bytes, os_page_bytes);
  const uint64_t end_bytes = layer.offset_bytes + layer.length_bytes;
  return {.offset_bytes = begin_bytes,
          .length_bytes = round_up(end_bytes, os_page_bytes) - begin_bytes,
          .needed_bytes = end_bytes - begin_bytes};
}

// The longest layer that the reader can read with one read.
constexpr uint64_t layer_bytes_max = std::numeric_limits<uint32_t>::max() - 2 * os_page_bytes;

}  // namespace

Result<std::unique_ptr<LayerStream>> LayerStream::open(LayerStreamOptions options) {
  auto file = io::ModelFile::open(options.path);
  if (!file) return forward_error(std::move(file));
  if (options.layers.empty()) {
    auto layers = layers_of_model(options.path);
    if (!layers) return forward_error(std::move(layers));
    options.layers = std::move(*layers);
  }
  std::unique_ptr<LayerStream> stream(new LayerStream(std::move(*file), std::move(options.layers)));
  if (Status started = stream->start(options); !started) return forward_error(std::move(started));
  return stream;
}

Status LayerStream::start(const LayerStreamOptions& options) {
  uint64_t sum_bytes = 0;
  uint64_t largest = 0;
  for (uint64_t i = 0; i < layers_.size(); ++i) {
    const LayerRange& layer = layers_[i];
    if (layer.length_bytes > file_.size_bytes() ||
        layer.offset_bytes > file_.size_bytes() - layer.length_bytes) {
      return fail(fmt::format("{}, byte {}: {} of {} bytes reaches beyond the end of the file, "
                              "which has {} bytes",
                              options.path, layer.offset_bytes, describe(i), layer.length_bytes,
                              file_.size_bytes()),
                  "these are layers of another file, or the file was cut off: fetch it anew",
                  EINVAL);
    }
    if (layer.length_bytes > layer_bytes_max) {
      return fail(fmt::format("{}: {} has {}, and a layer is read in one piece of less than 4 GiB",
                              options.path, describe(i), format_size(layer.length_bytes)),
                  "give its parts as layers of their own", EINVAL);
    }
    units_.push_back(unit_of(layer));
    sum_bytes += units_[i].length_bytes;
    if (units_[i].length_bytes > units_[largest].length_bytes) largest = i;
  }
  const uint64_t needed_bytes = units_.empty() ? 0 : units_[largest].length_bytes;
  if (options.window_bytes < needed_bytes) {
    return fail(fmt::format("{}: {} needs {} ({} bytes), and the window has {}", options.path,
                            describe(largest), format_size(needed_bytes), needed_bytes,
                            format_size(options.window_bytes)),
                fmt::format("open the stream with a window of {} bytes or more; with {} the next "
                            "layer is read while this one is held",
                            needed_bytes, 2 * needed_bytes),
                EINVAL);
  }
  const bool is_pinned = sum_bytes <= options.window_bytes;
  for (UnitBytes& unit : units_) unit.is_pinned = is_pinned;
  ring_bytes_ = is_pinned ? 0 : round_down(options.window_bytes, os_page_bytes);
  auto executor = Executor::make(units_,
                                 {.schedule = {.pipeline = Pipeline::two_stage,
                                               .rings = {.host_bytes = ring_bytes_},
                                               .reads_across_inferences = true},
                                  .fd = file_.fd(),
                                  .file = file_.identity(),
                                  .file_name = options.path,
                                  .device_read_bytes = io::device_limits(file_.fd()).read_bytes,
                                  .open_reader = options.open_reader},
                                 work_);
  if (!executor) return forward_error(std::move(executor));
  executor_ = std::move(*executor);
  window_bytes_ = executor_->window_bytes();
  return {};
}

std::string LayerStream::describe(uint64_t layer) const {
  const std::string& name = layers_[layer].name;
  return name.empty() ? fmt::format("layer {}", layer) : fmt::format("layer {} ({})", layer, name);
}

Result<std::span<const std::byte>> LayerStream::acquire(uint32_t layer) {
  const MutexLock order(order_mutex_);

  // 1. Refuse a layer that could never come.
  if (Status known = check_layer(layer); !known) return forward_error(std::move(known));
  if (Status begun = check_pass(); !begun) return forward_error(std::move(begun));
  if (Status fits = check_room(layer); !fits) return forward_error(std::move(fits));

  // 2. Go to the layer, and wait for it.
  const UnitNumber wanted = next_of(layer);
  go_to(wanted);
  const uint64_t start_ns = telemetry::monotonic_ns();
  Result<UnitTask> task = take(wanted);
  stall_ns_ += telemetry::monotonic_ns() - start_ns;
  if (!task) {
    end_failed_pass();
    return forward_error(std::move(task));
  }

  // 3. Keep the layer for the caller until it is released.
  next_ = wanted + 1;
  keep(*task, true);
  static constexpr std::byte nothing{};
  const LayerRange& range = layers_[layer];
  if (range.length_bytes == 0) return std::span(&nothing, 0);
  return std::span(task->bytes + (range.offset_bytes - units_[layer].offset_bytes),
                   range.length_bytes);
}

Status LayerStream::release(uint32_t layer) {
  if (Status known = check_layer(layer); !known) return known;
  const MutexLock lock(mutex_);
  for (Taken& it : taken_) {
    if (!it.is_held || it.task.unit != layer) continue;
    it.is_held = false;
    finish_released();
    return {};
  }
  return fail(describe(layer) + " is not held, so it cannot be released",
              "release each layer once for each time that it was acquired", EINVAL);
}

Status LayerStream::will_need(uint32_t layer) {
  const MutexLock order(order_mutex_);
  if (Status known = check_layer(layer); !known) return known;
  if (Status begun = check_pass(); !begun) return begun;
  go_to(next_of(layer));
  return {};
}

void LayerStream::last_pass() {
  const MutexLock order(order_mutex_);
  last_pass_ = std::max<uint64_t>(passes_begun_, 1) - 1;
  if (passes_begun_ > 0) executor_->set_reads_across_inferences(false);
}

LayerStreamStatistics LayerStream::statistics() const {
  return {.window_bytes = window_bytes_,
          .read_bytes = executor_->read_bytes(),
          .stall_ns = stall_ns_,
          .passes = passes_};
}

// ---- What is refused ----

Status LayerStream::check_layer(uint32_t layer) const {
  if (layer < layers_.size()) return {};
  return fail(fmt::format("there is no layer {}: the stream has {}, numbered from 0", layer,
                          layers_.size()),
              "", EINVAL);
}

Status LayerStream::check_pass() {
  const MutexLock lock(mutex_);
  if (taken_.empty()) has_pass_failed_ = false;
  if (!has_pass_failed_) return {};
  return fail("the pass has failed, and of it there is still held: " + held_layers(),
              "release what is held; then acquire begins a new pass", EBUSY);
}

// The layers between the first held one and the wanted one take space, too: the ring is freed in
// order.
Status LayerStream::check_room(uint32_t layer) const {
  const MutexLock lock(mutex_);
  if (taken_.empty()) return {};
  const auto is_it = [&](const Taken& it) { return it.is_held && it.task.unit == layer; };
  if (std::any_of(taken_.begin(), taken_.end(), is_it)) {
    return fail(describe(layer) + " is held already", "release it first", EBUSY);
  }
  const UnitNumber first = taken_.front().task.number;
  const UnitNumber wanted = next_of(layer);
  if (wanted / units_.size() > first / units_.size() + 1) {
    return fail(fmt::format("{} comes two passes after one that is still held: {}", describe(layer),
                            held_layers()),
                "release layers before the pass after theirs is over", EBUSY);
  }
  uint64_t needed_bytes = 0;
  for (UnitNumber unit = first; unit <= wanted; ++unit) {
    const UnitBytes& it = units_[unit % units_.size()];
    if (!it.is_pinned) needed_bytes += it.length_bytes;
  }
  if (needed_bytes <= ring_bytes_) return {};
  return fail(
      fmt::format("{} does not fit beside what is held ({}): from the first of these to it, "
                  "with what lies between, layers take {}, and the window has {}",
                  describe(layer), held_layers(), format_size(needed_bytes),
                  format_size(ring_bytes_)),
      "release the layers that were acquired first, or open the stream with a larger window",
      ENOBUFS);
}

std::string LayerStream::held_layers() const {
  std::string held;
  for (const Taken& it : taken_) {
    if (!it.is_held) continue;
    if (!held.empty()) held += ", ";
    held += describe(it.task.unit);
  }
  return held;
}

// ---- Moving on in the order ----

UnitNumber LayerStream::next_of(uint32_t layer) const {
  const UnitNumber in_this_pass = next_ / units_.size() * units_.size() + layer;
  return in_this_pass >= next_ ? in_this_pass : in_this_pass + units_.size();
}

void LayerStream::go_to(UnitNumber unit) {
  if (unit > next_) executor_->let_go(unit);
  while (passes_begun_ <= unit / units_.size()) begin_pass();
  next_ = unit;
}

void LayerStream::begin_pass() {
  executor_->set_reads_across_inferences(passes_begun_ != last_pass_);
  executor_->start();
  ++passes_begun_;
  ++passes_;
}

Result<UnitTask> LayerStream::take(UnitNumber wanted) {
  for (;;) {
    Result<std::optional<UnitTask>> task = executor_->take();
    if (!task) return forward_error(std::move(task));
    if (!*task) continue;  // the end of a pass
    if ((*task)->number == wanted) return **task;
    WP_ASSERT((*task)->number < wanted);  // it was ready before it was let go
    keep(**task, false);
  }
}

void LayerStream::keep(const UnitTask& task, bool is_held) {
  const MutexLock lock(mutex_);
  taken_.push_back({task, is_held});
  finish_released();
}

void LayerStream::finish_released() {
  for (; !taken_.empty() && !taken_.front().is_held; taken_.pop_front()) {
    executor_->finish(taken_.front().task, {});
  }
}

void LayerStream::end_failed_pass() {
  next_ = 0;
  passes_begun_ = 0;
  last_pass_.reset();
  const MutexLock lock(mutex_);
  has_pass_failed_ = true;
}

}  // namespace weightpager::pipeline
