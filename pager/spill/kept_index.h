// Which kept chunk has which content, and which of this run's kept chunks are in use.
//
// Problem. A chunk that leaves shall be known by its hash among a hundred thousand that lie in the
// folder already (kept_folder.h). Of what this run adds, what the engine writes over again is no
// weight and shall not stay; but weights shall, when the engine frees them at its end.
//
// Idea. A table from hash to place. Places of earlier runs are only looked up. Places of this run
// have users: chunks that are at home there, or that are being compared with it. Whoever stops
// using a place says whether its content is worth keeping. A place without users that is worth it
// stays in the table, and is given away, the longest unused first, when there are too many of
// these.
//
// Pure bookkeeping: no files, no clock. Cost: O(1); 48 bytes a place of an earlier run, 84 of this
// one. Used by the pager's thread only; `add_earlier` and `add_own` may allocate.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "pager/spill/content_hash.h"

namespace weightpager::spill {

/// Where a kept chunk lies.
struct KeptPlace {
  uint32_t file = 0;  // 0: the one of this run; others as the caller numbers them
  uint64_t offset_bytes = 0;

  bool operator==(const KeptPlace&) const = default;
};

class KeptIndex {
 public:
  static constexpr uint32_t own_file = 0;

  explicit KeptIndex(uint64_t place_bytes) : place_bytes_(place_bytes), slots_(slots_min) {}

  /// The place of an earlier run has this content. The first one that is said of a content counts.
  void add_earlier(const ContentHash& hash, const KeptPlace& place);
  /// This run has written the content to a place of its own, which has one user from now on.
  /// Returns whether it can be found by its hash: another place may have the content already.
  bool add_own(const ContentHash& hash, uint64_t offset_bytes);

  std::optional<KeptPlace> find(const ContentHash& hash) const;
  void begin_use(const KeptPlace& place);
  /// Returns whether the place was one of this run's that is free now, and nobody finds any more.
  bool end_use(const KeptPlace& place, bool is_worth_keeping);
  /// The place has not the content that it should have: nobody finds it any more.
  void distrust(const ContentHash& hash, const KeptPlace& place);

  /// This run's places that somebody uses.
  uint64_t used() const { return used_; }
  /// … and the most that there have been.
  uint64_t used_max() const { return used_max_; }
  /// This run's places that are kept though nobody uses them.
  uint64_t unused() const { return unused_; }
  /// Gives away the place among these that has been unused for the longest time.
  std::optional<uint64_t> take_unused();

 private:
  static constexpr uint64_t slots_min = 64;  // a power of two
  static constexpr uint32_t nowhere = UINT32_MAX;

  struct Slot {
    ContentHash hash;
    uint32_t file = nowhere;  // nowhere: the slot is empty
    uint32_t place = 0;
  };
  struct Own {
    ContentHash hash;
    uint32_t users = 0;
    bool can_be_found = false;
    bool is_worth_keeping = false;  // a user has said so
    bool is_unused = false;         // in the list of these:
    uint32_t before = nowhere;
    uint32_t behind = nowhere;
  };

  uint64_t slot_of(const ContentHash& hash) const;
  bool insert(const ContentHash& hash, uint32_t file, uint32_t place);
  void erase(const ContentHash& hash);
  void grow();
  void count_used();
  void append_unused(uint32_t place);
  void remove_unused(uint32_t place);
  uint32_t number_of(const KeptPlace& place) const {
    return static_cast<uint32_t>(place.offset_bytes / place_bytes_);
  }

  uint64_t place_bytes_;
  std::vector<Slot> slots_;  // by hash, or behind; at most half of them are in use
  uint64_t contents_ = 0;
  std::vector<Own> own_;  // by place
  uint64_t used_ = 0;
  uint64_t used_max_ = 0;
  uint64_t unused_ = 0;
  uint32_t first_unused_ = nowhere;
  uint32_t last_unused_ = nowhere;
};

}  // namespace weightpager::spill
