// A lesson (policy/chunk_order.h) as it outlives the process that learned it: of files instead of
// chunk numbers, as JSON that a person can read, too.
//
//   {"weightpager_lesson": 1, "chunk_bytes": 2097152,
//    "files": [{"name": "/models/a.gguf", "layout": "90f1…", "size_bytes": 4431000000}],
//    "pass": [[0, 3, 16, 103000], …]}
//
// `pass` has, in the order of a pass, runs of chunks: of which file, the first, how many, and the
// nanoseconds that the engine computes from each. Of a file it matters what is where in it and how
// long it is (`layout`), not its name, its time or its weights: an engine does with a copy, or with
// one that was trained further, what it did before. Nobody vouches for such a file; all of it is
// checked, and a wrong one costs time at most.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/model/model.h"
#include "pager/policy/chunk_order.h"

namespace weightpager::lessons {

struct TaughtFile {
  std::string name;  // for people
  uint64_t layout = 0;
  uint64_t size_bytes = 0;

  bool is_like(const TaughtFile& other) const {
    return layout == other.layout && size_bytes == other.size_bytes;
  }
};

struct TaughtRun {
  uint32_t file = 0;
  uint32_t first_chunk = 0;  // in the file
  uint32_t chunks = 0;
  float computed_ns = 0;  // from each, a whole number
};

struct KeptLesson {
  uint64_t chunk_bytes = 0;
  std::vector<TaughtFile> files;
  std::vector<TaughtRun> runs;

  /// Or only the order is known.
  bool has_pace() const {
    return std::any_of(runs.begin(), runs.end(),
                       [](const TaughtRun& run) { return run.computed_ns > 0; });
  }
};

/// The model's one file.
TaughtFile taught_file(const std::string& name, uint64_t size_bytes, const model::Model& model);

std::string lesson_text(const KeptLesson& lesson);
/// `path` is for messages. Fails unless every run lies in its file and no chunk is there twice.
Result<KeptLesson> parse_lesson(const std::string& text, const std::string& path);

/// A file, and the number of its first chunk.
struct NumberedFile {
  TaughtFile file;
  policy::ChunkId first_chunk = 0;
};

/// Of the chunks of these files; those of others are left out.
policy::Lesson lesson_for(const KeptLesson& kept, std::span<const NumberedFile> files);
/// Every chunk of the lesson is one of these files'.
KeptLesson kept_lesson(const policy::Lesson& lesson, uint64_t chunk_bytes,
                       std::span<const NumberedFile> files);

}  // namespace weightpager::lessons
