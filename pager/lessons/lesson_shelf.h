// Where lessons are kept between runs: one file of JSON for each set of model files that were
// served together, in chunks of one size, in weightpager's part of the user's cache directory.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "pager/lessons/kept_lesson.h"

namespace weightpager::lessons {

/// learned-HASH.json in the directory, whatever the files' order.
std::string lesson_path(const std::string& directory, uint64_t chunk_bytes,
                        std::span<const TaughtFile> files);

/// The lesson of these files, if one is kept. One that is damaged, or of other files, is a notice.
std::optional<KeptLesson> find_lesson(const std::string& directory, uint64_t chunk_bytes,
                                      std::span<const TaughtFile> files);

}  // namespace weightpager::lessons
