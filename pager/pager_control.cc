// What others may see of a pager, and change, while it serves (pager/control).
//
// Like everything that is asked of it, it is done by the pager's thread between two faults. Looking
// allocates nothing there; what is changed may.
#include <algorithm>

#include "pager/pager.h"

namespace weightpager {

using policy::ChunkId;
using window::ChunkState;

// ---- Anybody's thread ----

size_t Pager::look(std::span<FileView> views) {
  size_t files = 0;
  execute([&] {
    files = files_.size();
    for (size_t i = 0; i < std::min(files, views.size()); ++i) {
      views[i] = {files_[i]->first_chunk, files_[i]->chunks, files_[i]->layers};
    }
  });
  return files;
}

uint32_t Pager::look(ChunkId first, std::span<ChunkView> states) {
  uint32_t chunks = 0;
  execute([&] {
    chunks = table_.chunks();
    const size_t count = std::min<size_t>(states.size(), chunks - std::min(first, chunks));
    for (uint32_t i = 0; i < count; ++i) {
      states[i] = {table_.state(first + i), policy_->is_pinned(first + i)};
    }
  });
  return chunks;
}

void Pager::trace_to(telemetry::EventRing* events) {
  execute([&] { events_ = events; });
}

uint64_t Pager::resize(uint64_t window_bytes) {
  execute([&] { window_bytes = do_resize(window_bytes); });
  return window_bytes;
}

Status Pager::change_policy(const std::string& name) {
  Status outcome;
  execute([&] { outcome = do_change_policy(name); });
  return outcome;
}

uint32_t Pager::keep(std::span<const ChunkId> chunks) {
  uint32_t pinned = 0;
  execute([&] { pinned = do_keep(chunks); });
  return pinned;
}

uint32_t Pager::evict(std::span<const ChunkId> chunks) {
  uint32_t evicted = 0;
  execute([&] { evicted = do_evict(chunks); });
  return evicted;
}

uint32_t Pager::drop() {
  uint32_t evicted = 0;
  execute([&] { evicted = do_drop(); });
  return evicted;
}

// ---- The pager's thread ----

uint64_t Pager::do_resize(uint64_t window_bytes) {
  const auto chunks_min = static_cast<uint32_t>(window_bytes_min / chunk_bytes_);
  window_chunks_wanted_ = static_cast<uint32_t>(
      std::clamp<uint64_t>(window_bytes / chunk_bytes_, chunks_min, window_chunks_max_));
  set_window(window_chunks_wanted_);
  return uint64_t{window_chunks_} * chunk_bytes_;
}

Status Pager::do_change_policy(const std::string& name) {
  if (auto known = policy::check_policy(name, true); !known) return known;
  const bool is_adaptive = name == policy::adaptive_policy;
  if (is_adaptive && !can_adapt()) {
    return fail("policy auto: here what the engine touches cannot be seen",
                "with --mapper move or collapse, and without --record, it can");
  }
  // A sample that is under way ends; its verdict, should one be on its way, is nobody's any more.
  if (record_ == sample_.get()) record_ = nullptr;
  is_verdict_unwanted_ = judge_ != nullptr && !judge_->is_idle();
  end_adapting();
  if (is_adaptive) {
    begin_adapting(policy::policy_name(telemetry_.policy));
    tell_order();
  } else if (policy::policy_name(telemetry_.policy) != name) {
    take_over(name);
  }
  return {};
}

uint32_t Pager::do_keep(std::span<const ChunkId> chunks) {
  kept_.clear();
  for (const ChunkId chunk : chunks) {
    if (chunk < owners_.size() && owners_[chunk] != nullptr) kept_.push_back(chunk);
  }
  tell_order();
  return static_cast<uint32_t>(std::count_if(
      kept_.begin(), kept_.end(), [&](ChunkId chunk) { return policy_->is_pinned(chunk); }));
}

// The policy learns of it as it learns of regions that go: by being told the order anew.
uint32_t Pager::do_evict(std::span<const ChunkId> chunks) {
  uint32_t evicted = 0;
  for (const ChunkId chunk : chunks) {
    if (chunk >= owners_.size() || owners_[chunk] == nullptr) continue;
    const ChunkState state = table_.state(chunk);
    if (state != ChunkState::ready && state != ChunkState::mapped) continue;
    evict(chunk);
    if (!table_.is_resident(chunk)) ++evicted;
  }
  tell_order();
  return evicted;
}

uint32_t Pager::do_drop() {
  std::vector<ChunkId> dropped;
  for (ChunkId chunk = 0; chunk < table_.chunks(); ++chunk) {
    if (!policy_->is_pinned(chunk)) dropped.push_back(chunk);
  }
  return do_evict(dropped);
}

}  // namespace weightpager
