// See schedule.h. Each stage has a next unit. The rules of the pipelines are in `is_…_due`, one
// line each.
#include "runtime/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/units.h"

namespace weightpager::pipeline {
namespace {

// So much free space is worth waking the driver for.
constexpr uint64_t freed_at_once_bytes = 1 * MiB;

bool copies(Pipeline pipeline, const Rings& rings) {
  if (pipeline == Pipeline::preload) return rings.host_bytes > 0;
  return pipeline != Pipeline::two_stage;
}

// Whether each stage goes on at its own pace, also from one inference to the next.
bool has_own_pace(Pipeline pipeline) {
  return pipeline == Pipeline::asynchronous || pipeline == Pipeline::two_stage;
}

bool is_limit_reached(const ScheduleSettings& settings, uint64_t units_under_way) {
  return settings.units_under_way_max > 0 && units_under_way >= settings.units_under_way_max;
}

// The largest sum of `count` consecutive sizes.
template <typename Size>
uint64_t largest_run(size_t units, size_t count, Size size) {
  uint64_t largest = 0;
  for (size_t first = 0; first < units; ++first) {
    uint64_t sum = 0;
    for (size_t unit = first; unit < std::min(units, first + count); ++unit) sum += size(unit);
    largest = std::max(largest, sum);
  }
  return largest;
}

Status check_ring(std::string_view which, Pipeline pipeline, uint64_t bytes, uint64_t needed) {
  if (bytes >= needed) return {};
  return fail(
      fmt::format("the {} ring of {} ({} bytes) is too small for the {} pipeline of these "
                  "layers: it must hold {} ({} bytes)",
                  which, format_size(bytes), bytes, name(pipeline), format_size(needed), needed),
      "give a larger --window, or split large layers into smaller tiles");
}

}  // namespace

std::string_view name(Pipeline pipeline) {
  switch (pipeline) {
    case Pipeline::preload:
      return "preload";
    case Pipeline::sequential:
      return "sequential";
    case Pipeline::synchronous:
      return "synchronous";
    case Pipeline::asynchronous:
      return "asynchronous";
    case Pipeline::two_stage:
      return "two-stage";
  }
  WP_ASSERT(false);
}

Rings smallest_rings(Pipeline pipeline, std::span<const WorkUnit> units) {
  if (pipeline == Pipeline::preload) return {};
  // In lock step a ring holds two units: one goes in while the other is used.
  const size_t at_once = pipeline == Pipeline::synchronous ? 2 : 1;
  const auto size = [&](size_t unit) { return units[unit].size_bytes; };
  const auto streamed = [&](size_t unit) {
    return units[unit].is_pinned || units[unit].overlay ? 0 : units[unit].size_bytes;
  };
  const uint64_t streamed_bytes = largest_run(units.size(), at_once, streamed);
  if (pipeline == Pipeline::two_stage) return {.host_bytes = streamed_bytes};
  // Pinned units pass through the host's ring as well, in the first pass.
  return {.host_bytes = largest_run(units.size(), at_once, size), .device_bytes = streamed_bytes};
}

uint64_t Schedule::Ring::take(uint64_t bytes) {
  WP_ASSERT(has_room(bytes));
  return std::exchange(taken_bytes, taken_bytes + bytes);
}

void Schedule::Ring::free(uint64_t begin, uint64_t bytes) {
  WP_ASSERT(bytes == 0 || begin == freed_bytes);  // in the order in which it was taken
  freed_bytes += bytes;
}

Result<Schedule> Schedule::make(std::vector<WorkUnit> units, const ScheduleSettings& settings) {
  if (units.empty()) return fail("a network without layers has no schedule");
  Rings needed = smallest_rings(settings.pipeline, units);
  if (settings.pipeline == Pipeline::preload && settings.rings.host_bytes > 0) {
    needed.host_bytes = largest_run(units.size(), 1, [&](size_t i) { return units[i].size_bytes; });
  }
  const Rings& rings = settings.rings;
  if (Status fits = check_ring("host", settings.pipeline, rings.host_bytes, needed.host_bytes);
      !fits) {
    return forward_error(std::move(fits));
  }
  if (Status fits =
          check_ring("device", settings.pipeline, rings.device_bytes, needed.device_bytes);
      !fits) {
    return forward_error(std::move(fits));
  }
  return Schedule(std::move(units), settings);
}

Schedule::Schedule(std::vector<WorkUnit> units, const ScheduleSettings& settings)
    : units_(std::move(units)),
      pinned_offsets_bytes_(units_.size()),
      settings_(settings),
      has_copies_(copies(settings.pipeline, settings.rings)),
      progress_(2 * units_.size()),
      host_ring_{.capacity_bytes = settings.rings.host_bytes},
      device_ring_{.capacity_bytes = settings.rings.device_bytes} {
  const bool is_preload = settings_.pipeline == Pipeline::preload;
  set_reads_across_inferences(settings_.reads_across_inferences);
  for (size_t i = 0; i < units_.size(); ++i) {
    WP_ASSERT(!units_[i].overlay || (settings_.pipeline == Pipeline::two_stage &&
                                     !units_[i].is_pinned && units_[i].overlay->after_unit < i));
    units_[i].is_pinned |= is_preload;
    pinned_offsets_bytes_[i] = pinned_bytes_;
    if (units_[i].is_pinned) pinned_bytes_ += units_[i].size_bytes;
  }
}

bool Schedule::may_start_inference() const {
  if (!has_own_pace(settings_.pipeline)) return is_inference_finished();
  return kernels_finished_ + units_.size() >= end_of_started();
}

void Schedule::start_inference() {
  WP_ASSERT(may_start_inference());
  cycle_ = end_of_started();
  ++inferences_started_;
}

void Schedule::set_reads_across_inferences(bool reads_across) {
  reads_ahead_ =
      settings_.pipeline == Pipeline::preload || (has_own_pace(settings_.pipeline) && reads_across);
}

void Schedule::let_go(UnitNumber end) {
  WP_ASSERT(settings_.pipeline == Pipeline::two_stage);
  let_go_end_ = std::max(let_go_end_, end);
}

UnitNumber Schedule::end_of_reads() const {
  const UnitNumber end = end_of_started() + (reads_ahead_ ? units_.size() : 0);
  return std::min(end, kernels_finished_ + progress_.size());
}

// Pinned units are never skipped, because later inferences need them.
bool Schedule::is_skipped(UnitNumber unit) const {
  return unit < let_go_end_ && !at(unit).is_pinned;
}

// Whether the unit must be read in this pass. Otherwise it has no bytes, or is pinned and was read.
bool Schedule::is_moved(UnitNumber unit) const {
  const bool is_first_pass = unit < units_.size();
  return at(unit).size_bytes > 0 && (is_first_pass || !at(unit).is_pinned);
}

uint64_t Schedule::host_ring_bytes(UnitNumber unit) const {
  const bool has_place = at(unit).is_pinned || at(unit).overlay;
  const bool passes_through = is_moved(unit) && (has_copies_ || !has_place);
  return passes_through ? at(unit).size_bytes : 0;
}

uint64_t Schedule::device_ring_bytes(UnitNumber unit) const {
  return has_copies_ && !at(unit).is_pinned ? at(unit).size_bytes : 0;
}

// The kernel after which an overlaid unit may be read.
UnitNumber Schedule::overlay_is_free_after(UnitNumber unit) const {
  return unit - index(unit) + at(unit).overlay->after_unit;
}

bool Schedule::has_room_for(UnitNumber unit) const {
  if (at(unit).overlay) return kernels_finished_ > overlay_is_free_after(unit);
  return host_ring_.has_room(host_ring_bytes(unit));
}

Place Schedule::host_place(UnitNumber unit) const {
  if (host_ring_bytes(unit) == 0) return kernel_place(unit);
  return {Place::Memory::host_ring, progress(unit).host_begin % host_ring_.capacity_bytes};
}

Place Schedule::kernel_place(UnitNumber unit) const {
  if (at(unit).size_bytes == 0) return {};
  if (at(unit).is_pinned) return {Place::Memory::pinned, pinned_offsets_bytes_[index(unit)]};
  if (at(unit).overlay) return {Place::Memory::arena, at(unit).overlay->offset_bytes};
  if (!has_copies_) return host_place(unit);
  return {Place::Memory::device_ring, progress(unit).device_begin % device_ring_.capacity_bytes};
}

ScheduleAction Schedule::next() {
  for (;;) {
    if (is_kernel_due()) {
      if (next_kernel_ >= let_go_end_) return take_kernel();
      let_go_of_kernel();
    } else if (is_copy_due()) {
      const ScheduleAction action = take_copy();
      if (action.kind != ScheduleAction::Kind::none) return action;
    } else if (is_read_due()) {
      const ScheduleAction action = take_read();
      if (action.kind != ScheduleAction::Kind::none) return action;
    } else if (!begin_next_cycle()) {
      return {};
    }
  }
}

Rest Schedule::rest() const {
  if (settings_.pipeline == Pipeline::sequential || settings_.pipeline == Pipeline::synchronous) {
    return {.until = kernels_finished_};
  }
  uint64_t ready_bytes = 0;
  for (UnitNumber unit = kernels_finished_; unit < next_kernel_; ++unit) {
    ready_bytes += progress(unit).host_bytes;
  }
  const uint64_t capacity_bytes = host_ring_.capacity_bytes;
  const bool has_enough = !has_copies_ && ready_bytes > capacity_bytes / 2;
  const uint64_t enough_bytes = capacity_bytes - std::min(capacity_bytes / 2, freed_at_once_bytes);
  UnitNumber unit = kernels_finished_;
  if (is_limit_reached(settings_, next_read_ - unit)) return {.until = unit};
  // If the next unit to read is overlaid, it does not wait for space in the ring.
  if (next_read_ < end_of_reads() && at(next_read_).overlay) {
    while (unit < next_kernel_ && !ends_inference(unit) && unit < overlay_is_free_after(next_read_))
      ++unit;
    return {.until = unit, .ignores_reads = has_enough && unit < next_kernel_};
  }
  for (; unit < next_kernel_ && !ends_inference(unit); ++unit) {
    const uint64_t freed_bytes = has_copies_ ? device_ring_bytes(unit) : progress(unit).host_bytes;
    if (freed_bytes == 0) continue;
    ready_bytes -= std::min(ready_bytes, progress(unit).host_bytes);
    if (has_copies_ || ready_bytes <= enough_bytes) break;
  }
  return {.until = unit, .ignores_reads = has_enough};
}

bool Schedule::is_read_due() const {
  if (next_read_ >= end_of_reads()) return false;
  if (settings_.pipeline == Pipeline::sequential && next_read_ != kernels_finished_) return false;
  if (settings_.pipeline == Pipeline::synchronous && next_read_ > cycle_) return false;
  if (is_limit_reached(settings_, next_read_ - kernels_finished_)) return false;
  return is_skipped(next_read_) || has_room_for(next_read_);
}

bool Schedule::is_copy_due() const {
  if (!has_copies_ || next_copy_ == next_read_ || !progress(next_copy_).is_read) return false;
  if (settings_.pipeline == Pipeline::synchronous && next_copy_ + 1 > cycle_) return false;
  return device_ring_.has_room(device_ring_bytes(next_copy_));
}

bool Schedule::is_kernel_due() const {
  if (next_kernel_ == end_of_started()) return false;
  if (next_kernel_ == (has_copies_ ? next_copy_ : next_read_)) return false;
  if (settings_.pipeline == Pipeline::synchronous && next_kernel_ + 2 > cycle_) return false;
  if (!has_copies_) return progress(next_kernel_).is_read;
  return progress(next_kernel_).is_copied || settings_.kernels_follow_copies;
}

ScheduleAction Schedule::take_read() {
  const UnitNumber unit = next_read_++;
  const bool is_read_now = is_moved(unit) && !is_skipped(unit);
  const uint64_t host_bytes = is_read_now ? host_ring_bytes(unit) : 0;
  progress(unit) = {
      .is_read = !is_read_now, .host_begin = host_ring_.take(host_bytes), .host_bytes = host_bytes};
  if (!is_read_now) return {};
  ++in_flight_;
  return {.kind = ScheduleAction::Kind::read, .unit = unit, .to = host_place(unit)};
}

ScheduleAction Schedule::take_copy() {
  const UnitNumber unit = next_copy_++;
  progress(unit).is_copied = !is_moved(unit);
  progress(unit).device_begin = device_ring_.take(device_ring_bytes(unit));
  if (!is_moved(unit)) return {};
  ++in_flight_;
  return {.kind = ScheduleAction::Kind::copy,
          .unit = unit,
          .from = host_place(unit),
          .to = kernel_place(unit)};
}

ScheduleAction Schedule::take_kernel() {
  const UnitNumber unit = next_kernel_++;
  ++in_flight_;
  return {.kind = ScheduleAction::Kind::kernel, .unit = unit, .from = kernel_place(unit)};
}

void Schedule::let_go_of_kernel() {
  progress(next_kernel_++).is_let_go = true;
  leave_in_order();
}

// After a unit has left the ring, the units behind it that were let go leave, too.
void Schedule::leave_in_order() {
  while (kernels_finished_ < next_kernel_ && progress(kernels_finished_).is_let_go) {
    const Progress& it = progress(kernels_finished_);
    host_ring_.free(it.host_begin, it.host_bytes);
    ++kernels_finished_;
  }
}

// Lock step: all work of the cycle was started by now, so the cycle is over when nothing is in
// flight.
bool Schedule::begin_next_cycle() {
  if (settings_.pipeline != Pipeline::synchronous || in_flight_ > 0 || is_inference_finished()) {
    return false;
  }
  ++cycle_;
  return true;
}

void Schedule::on_read_finished(UnitNumber unit) {
  WP_ASSERT(unit < next_read_ && !progress(unit).is_read);
  --in_flight_;
  progress(unit).is_read = true;
}

void Schedule::on_copy_finished(UnitNumber unit) {
  WP_ASSERT(unit < next_copy_ && !progress(unit).is_copied);
  --in_flight_;
  progress(unit).is_copied = true;
  host_ring_.free(progress(unit).host_begin, progress(unit).host_bytes);
}

void Schedule::on_kernel_finished(UnitNumber unit) {
  WP_ASSERT(unit == kernels_finished_ && unit < next_kernel_);
  --in_flight_;
  ++kernels_finished_;
  if (has_copies_) {
    device_ring_.free(progress(unit).device_begin, device_ring_bytes(unit));
  } else {
    host_ring_.free(progress(unit).host_begin, progress(unit).host_bytes);
  }
  leave_in_order();
}

}  // namespace weightpager::pipeline
