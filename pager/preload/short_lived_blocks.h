// Which large blocks live too shortly to be spilled: activations of long prompts, conversions.
//
// They come and go thousands of times a second, and there is nothing to gain by taking them out of
// memory. Blocks of about one size are a class. If nearly all blocks of a class were given back
// within 100 ms, the next ones become plain: memory that no pager serves. A plain block that lives
// longer shows that the class was mistaken; the next blocks are spilled again, and the class needs
// twice as many short lives to become plain once more. Weights of the same size may come meanwhile,
// so a class has few plain blocks at a time, and all classes together have 128 MiB at most.
//
// Pure, without a clock. Not thread-safe. Allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "pager/base/units.h"

namespace weightpager::preload {

class ShortLivedBlocks {
 public:
  static constexpr uint64_t short_life_ns = 100'000'000;
  static constexpr size_t length_bytes_max = 64 * MiB;
  static constexpr size_t plain_bytes_max = 128 * MiB;

  /// Whether a block of this length shall be plain. If there is one, it is noted.
  bool shall_be_plain(size_t length_bytes, uint64_t now_ns);
  void note_plain(uintptr_t begin, size_t length_bytes, uint64_t now_ns);
  void note_plain_end(uintptr_t begin, uint64_t now_ns);
  /// Whether there are no plain blocks, and none to come.
  bool is_idle() const;

  void note_spilled(size_t length_bytes);
  void note_spilled_end(size_t length_bytes, uint64_t life_ns);

 private:
  static constexpr size_t classes = 17;  // four in an octave, from 4 MiB to 64 MiB
  static constexpr size_t plain_of_class_max = 8;
  static constexpr uint32_t lives_min = 4;
  static constexpr uint32_t lives_max = 1024;

  struct Class {
    bool is_plain = false;
    /// So many short lives make the class plain.
    uint32_t lives_needed = lives_min;
    uint32_t taken = 0;
    uint32_t short_lives = 0;
    uint32_t plain_blocks = 0;
  };
  struct Plain {
    uintptr_t begin = 0;  // 0 for none
    size_t length_bytes = 0;
    uint64_t born_ns = 0;
  };

  static size_t class_of(size_t length_bytes);
  bool has_old_plain_block(size_t number, uint64_t now_ns) const;
  void be_mistaken(Class& it);

  std::array<Class, classes> classes_;
  std::array<Plain, 32> plain_;
  size_t plain_bytes_ = 0;
  size_t plain_count_ = 0;
};

}  // namespace weightpager::preload
