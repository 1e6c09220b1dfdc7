// Which places of a spill file are free: the lowest one at once.
//
// Problem. Chunks that leave one after the other shall lie side by side in the file, so that they
// are written and read in long runs. So the lowest free place is wanted, out of many thousands.
//
// Idea. One bit per place, and one bit above for each word of 64 that has any bit set, and so on up
// to a single word. The lowest place is found by one look per storey; three storeys suffice for
// 262,144 places.
//
// Cost: O(log64 places), and as many bits as there are places, and a little more.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace weightpager::spill {

/// A set of numbers. Not synchronised.
class FreePlaces {
 public:
  uint64_t count() const { return count_; }
  bool contains(uint64_t place) const;

  /// Requires !contains(place). Allocates when `place` is larger than all before.
  void add(uint64_t place);
  /// Requires contains(place).
  void take(uint64_t place);
  std::optional<uint64_t> lowest() const;

 private:
  static constexpr uint64_t bits = 64;
  using Words = std::vector<uint64_t>;

  void make_room_for(uint64_t place);

  /// The lowest storey, of the places, comes first; the highest one is a single word.
  std::vector<Words> storeys_ = {Words(1)};
  uint64_t count_ = 0;
};

}  // namespace weightpager::spill
