// An access profile (policy/chunk_order.h) in the form that outlives its process: it names files
// instead of chunk numbers, in JSON, so that a person can read it, too.
//
//   {"weightpager_access_profile": 1, "chunk_bytes": 2097152,
//    "files": [{"name": "/models/a.gguf", "layout": "90f1…", "size_bytes": 4431000000}],
//    "pass": [[0, 3, 16, 103000], …]}
//
// `pass` lists runs of chunks in the order of a pass: file, first chunk, number of chunks, and the
// nanoseconds that the engine computes from each chunk. Chunks that a pass visits again are there
// again. A file is known by its length and by which
// tensor is where in it
// (`layout`), not by its name, its time or its weights: with a copy, or with weights that were
// trained further, an engine does what it did before. Anyone may have written such a file, so all
// of it is checked. A wrong one costs time, never right bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/model/model.h"
#include "pager/policy/chunk_order.h"

namespace weightpager::profiles {

struct ProfiledFile {
  std::string name;  // for people
  uint64_t layout = 0;
  uint64_t size_bytes = 0;

  bool is_like(const ProfiledFile& other) const {
    return layout == other.layout && size_bytes == other.size_bytes;
  }
};

struct ProfiledRun {
  uint32_t file = 0;
  uint32_t first_chunk = 0;  // in the file
  uint32_t chunks = 0;
  float computed_ns = 0;  // from each, a whole number
};

struct StoredAccessProfile {
  uint64_t chunk_bytes = 0;
  std::vector<ProfiledFile> files;
  std::vector<ProfiledRun> runs;

  /// False if only the order is known.
  bool has_pace() const {
    return std::any_of(runs.begin(), runs.end(),
                       [](const ProfiledRun& run) { return run.computed_ns > 0; });
  }
};

/// For a model of one file.
ProfiledFile profiled_file(const std::string& name, uint64_t size_bytes, const model::Model& model);

std::string access_profile_text(const StoredAccessProfile& access_profile);
/// `path` is for messages. Fails unless every run lies in its file, and if there are more than four
/// visits for each chunk.
Result<StoredAccessProfile> parse_access_profile(const std::string& text, const std::string& path);

/// A file, and the number of its first chunk.
struct NumberedFile {
  ProfiledFile file;
  policy::ChunkId first_chunk = 0;
};

/// In chunk numbers of `files`. Chunks of other files are left out.
policy::AccessProfile access_profile_for(const StoredAccessProfile& kept,
                                         std::span<const NumberedFile> files);
/// Every chunk of the access profile must belong to one of `files`.
StoredAccessProfile stored_access_profile(const policy::AccessProfile& access_profile,
                                          uint64_t chunk_bytes,
                                          std::span<const NumberedFile> files);

}  // namespace weightpager::profiles
