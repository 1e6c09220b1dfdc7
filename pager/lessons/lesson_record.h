// What an engine's pager has learned so far, for whoever keeps it when the engine has ended.
//
// A file of the run directory (<pid>.lesson), mapped at the start, because an engine may be killed
// at any time, and may forbid itself to open files. It holds the text that will be kept
// (kept_lesson.h). The pager alone writes it, now and then; a reader takes a text only if none was
// being written meanwhile. Cost: 256 KiB of the run directory.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pager/base/result.h"

namespace weightpager::lessons {

class LessonRecord {
 public:
  static constexpr size_t text_bytes_max = 256 << 10;

  /// Creates and maps `directory`/<pid>.lesson.
  static Result<LessonRecord*> create(const std::string& directory);
  /// Maps an existing one, for as long as the process lives.
  static Result<const LessonRecord*> open(const std::string& path);

  /// In place of what was there; false if it is too long, and nothing is there then.
  bool put(std::string_view text);
  /// Nothing if nothing was put, or its writer was stopped before it was done.
  std::optional<std::string> text() const;

 private:
  LessonRecord() = default;

  uint64_t magic_ = 0;
  std::atomic<uint64_t> edition_;  // odd while it is being written
  std::atomic<uint64_t> text_bytes_;
  std::atomic<uint64_t> words_[text_bytes_max / sizeof(uint64_t)];
};

}  // namespace weightpager::lessons
