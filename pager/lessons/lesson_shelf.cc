#include "pager/lessons/lesson_shelf.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "pager/base/log.h"
#include "pager/base/units.h"
#include "pager/base/user_cache.h"

namespace weightpager::lessons {
namespace {

constexpr uint64_t file_bytes_max = 1 * MiB;

// What a set of files is known by: sizes and layouts, in no order.
std::vector<std::pair<uint64_t, uint64_t>> key_of(std::span<const TaughtFile> files) {
  std::vector<std::pair<uint64_t, uint64_t>> key;
  for (const TaughtFile& file : files) key.emplace_back(file.layout, file.size_bytes);
  std::sort(key.begin(), key.end());
  return key;
}

Result<KeptLesson> read_lesson(const std::string& path, uint64_t chunk_bytes,
                               std::span<const TaughtFile> files) {
  const auto text = read_own_file(path, file_bytes_max);
  if (!text) return tl::make_unexpected(text.error());
  auto lesson = parse_lesson(*text, path);
  if (!lesson) return lesson;
  if (lesson->chunk_bytes != chunk_bytes || key_of(lesson->files) != key_of(files)) {
    return fail(path + ": is of other model files", "rm " + path);
  }
  return lesson;
}

}  // namespace

std::string lesson_path(const std::string& directory, uint64_t chunk_bytes,
                        std::span<const TaughtFile> files) {
  const auto key = key_of(files);
  const uint64_t hash =
      XXH3_64bits_withSeed(key.data(), key.size() * sizeof key.front(), chunk_bytes);
  return fmt::format("{}/learned-{:016x}.json", directory, hash);
}

std::optional<KeptLesson> find_lesson(const std::string& directory, uint64_t chunk_bytes,
                                      std::span<const TaughtFile> files) {
  const std::string path = lesson_path(directory, chunk_bytes, files);
  if (access(path.c_str(), F_OK) != 0) return std::nullopt;
  auto lesson = read_lesson(path, chunk_bytes, files);
  if (lesson) return std::move(*lesson);
  notice(fmt::format("{}; the order and the pace are learned anew. To mend it: {}",
                     lesson.error().message, lesson.error().hint));
  return std::nullopt;
}

}  // namespace weightpager::lessons
