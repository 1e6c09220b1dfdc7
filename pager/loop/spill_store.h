// Where spilled memory is kept while it is not in the window: the spill file, chunks that outlive
// the run, and the files that the engine read into its memory.
//
// The files are opened once more by the pager's thread, which has a descriptor table of its own,
// and stay open. A file that was changed since the engine read it has no bytes any more that could
// be shown.
//
// Used by the pager's thread only. Opening and adding allocate; reading does not.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/io/model_file.h"
#include "pager/loop/kept_chunks.h"
#include "pager/spill/spill_file.h"
#include "pager/spill/spilled_chunks.h"

namespace weightpager {

/// Where bytes are read from.
struct ReadPlace {
  int fd = -1;
  uint64_t offset_bytes = 0;
  /// What offset, length and memory have to be multiples of.
  uint32_t alignment_bytes = 1;
  /// False: what was read lies in the page cache, too.
  bool is_direct = true;

  bool is_aligned() const { return offset_bytes % alignment_bytes == 0; }
};

class SpillStore {
 public:
  /// A file that the engine read into spilled memory.
  struct File {
    io::ModelFile file;
    std::string name;
  };

  /// Makes the spill file in this folder, for chunks of this size.
  Status open(const std::string& folder, uint64_t chunk_bytes);
  void close();
  bool is_open() const { return spill_file_.has_value(); }
  /// Requires is_open().
  spill::SpillFile& spill_file() { return *spill_file_; }
  const std::string& folder() const { return folder_; }
  /// Not open unless chunks are to be kept.
  KeptChunks& kept() { return kept_; }
  const KeptChunks& kept() const { return kept_; }

  /// The number of the file that the link leads to, which has to have this identity; opens it if it
  /// is new.
  Result<uint32_t> add_file(const std::string& link, const io::FileIdentity& identity,
                            const std::string& name);
  /// By number.
  const std::vector<File>& files() const { return files_; }
  /// Whether the file still is what the engine read.
  bool is_unchanged(uint32_t number) const;

  /// Whether the chunk's home has still what the chunk is to have. Requires a home that is not
  /// `zeros`, as what follows.
  bool is_home_unchanged(const spill::SpilledChunks& chunks, uint32_t chunk) const;
  ReadPlace home_of(const spill::SpilledChunks& chunks, uint32_t chunk) const;
  /// Says what cannot be read from the chunk's home, and why.
  void describe_loss(const spill::SpilledChunks& chunks, uint32_t chunk,
                     std::span<char> text) const;

 private:
  std::string folder_;
  std::optional<spill::SpillFile> spill_file_;
  KeptChunks kept_;
  std::vector<File> files_;
};

}  // namespace weightpager
