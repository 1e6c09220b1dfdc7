// What an engine's pager has learned so far. `weightpager run` reads it when the engine has ended,
// and keeps it.
//
// The record is a file of the run directory (<pid>.access-profile). The pager maps it at the start,
// because the engine may be killed at any time, and may forbid itself to open files. The record
// holds the text that will be kept (stored_access_profile.h). Only the pager writes it, now and
// then. A reader takes a text only if no write happened meanwhile. Cost: 256 KiB of the run
// directory.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pager/base/result.h"

namespace weightpager::profiles {

class AccessProfileRecord {
 public:
  static constexpr size_t text_bytes_max = 256 << 10;

  /// Creates and maps `directory`/<pid>.access-profile.
  static Result<AccessProfileRecord*> create(const std::string& directory);
  /// Maps an existing one, for as long as the process lives.
  static Result<const AccessProfileRecord*> open(const std::string& path);

  /// Replaces the text. False if the new text is too long: the record is empty then.
  bool put(std::string_view text);
  /// nullopt if nothing was put, or if the writer was stopped in the middle of `put`.
  std::optional<std::string> text() const;

 private:
  AccessProfileRecord() = default;

  uint64_t magic_ = 0;
  std::atomic<uint64_t> edition_;  // odd while it is being written
  std::atomic<uint64_t> text_bytes_;
  std::atomic<uint64_t> words_[text_bytes_max / sizeof(uint64_t)];
};

}  // namespace weightpager::profiles
