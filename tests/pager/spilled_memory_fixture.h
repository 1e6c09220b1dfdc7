// Spilled memory whose every 8 bytes say where they are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/pager/model_file_fixture.h"

namespace weightpager {

class SpilledMemoryTest : public PagerTest {
 protected:
  volatile uint64_t& word(uint64_t offset_bytes) const {
    return *reinterpret_cast<volatile uint64_t*>(memory_ + offset_bytes);
  }
  void fill(uint64_t seed = 0) const {
    for (uint64_t at = 0; at < bytes_; at += 8) word(at) = word_at(at) + seed;
  }
  uint64_t wrong_words(uint64_t seed = 0) const {
    uint64_t wrong = 0;
    for (uint64_t at = 0; at < bytes_; at += 8) wrong += word(at) == word_at(at) + seed ? 0 : 1;
    return wrong;
  }

  std::byte* memory_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace weightpager
