// What an engine's process asks of whoever pages its weights: a pager of its own (pager.h), or one
// in another process that it is attached to (attach/attached_pager.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/base/span.h"
#include "pager/io/mirrors.h"
#include "pager/io/model_file.h"
#include "pager/model/model.h"
#include "pager/spill/spilled_chunks.h"

namespace weightpager {

struct RegionRequest {
  /// Opened by the pager's thread; a /proc/…/fd/N link is fine.
  std::string path;
  /// Which file it has to lead to; nothing: whichever it is.
  std::optional<io::FileIdentity> file;
  /// For messages.
  std::string name;
  /// A multiple of the page size.
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  /// MAP_PRIVATE and PROT_WRITE: what the engine writes is kept, for it alone. Otherwise a write is
  /// a SIGSEGV.
  bool is_writable = false;
  /// The file's layers (as file 0); nullptr: one layer in file order.
  const model::Model* model = nullptr;
  /// Checked copies on other drives, at most one for each. `file` is their original.
  std::vector<io::CheckedCopy> copies;
};

/// Opens what the request names; fails if that is not the file that it has to be.
inline Result<io::ModelFile> open_file_of(const RegionRequest& request) {
  return request.file ? io::ModelFile::open(request.path, *request.file, request.name)
                      : io::ModelFile::open(request.path);
}

/// Memory of the engine's own: zeros at first.
struct SpilledMemoryRequest {
  /// For messages.
  std::string name;
  /// A multiple of the chunk size.
  uint64_t length_bytes = 0;
  /// Outlives the pager.
  spill::BlocksInUse blocks;
};

/// A file's bytes that the engine has read into spilled memory, or believes to have.
struct LazyRead {
  std::byte* address = nullptr;
  uint64_t length_bytes = 0;
  /// A /proc/…/fd/N link to the file, and which file it has to lead to.
  std::string link;
  io::FileIdentity file;
  std::string name;  // for messages
  uint64_t offset_bytes = 0;
};

/// Memory of the engine's own that a child process does not inherit: the child has to map the file
/// there.
struct InheritedPart {
  std::byte* address = nullptr;
  uint64_t length_bytes = 0;
  /// A link to the file, good for child processes. "": the file has other bytes now, or they do not
  /// begin at a page's border, so that they cannot be mapped.
  std::string link;
  uint64_t offset_bytes = 0;
};

enum class Advice : uint32_t {
  will_need,
  consumed,
  discard,  // consumed, and what the engine wrote in the range is the file's again
};

/// All functions may be called by any thread but the service's own, and block until done.
class PagingService {
 public:
  virtual ~PagingService() = default;

  /// Whether faults inside system calls are not served (no right to: design decision 9).
  virtual bool is_user_mode_only() const = 0;
  /// Maps a file's bytes; returns the address of byte `offset_bytes`.
  virtual Result<std::byte*> add_region(const RegionRequest& request) = 0;
  /// munmap for regions, up to the end of the last page: what lies in [address, +length) is gone,
  /// and who waits there is woken. Parts of the range outside of regions are left alone.
  virtual void remove(std::byte* address, uint64_t length_bytes) = 0;
  /// Hints for the chunks that lie wholly or partly in the range.
  virtual void advise(std::byte* address, uint64_t length_bytes, Advice advice) = 0;
  /// Takes the engine's access to the pages of regions in the range away (a touch is SIGSEGV, also
  /// for who waits there), or gives it back: they are then as they were.
  virtual void protect(std::byte* address, uint64_t length_bytes, bool is_accessible) = 0;
  /// The path of a link to the file behind the region that begins at `address`, good for as long as
  /// the region is there, also for a child process: the file may have lost its name. "" if there is
  /// no region.
  virtual std::string file_link(std::byte* address) = 0;
  /// Where regions hold what the engine wrote itself, and not the file's bytes, in order. From now
  /// on child processes inherit these spans, and nothing else of regions.
  virtual std::vector<Span> written_spans() = 0;
  /// Writes for each page of the range (of one region) whether it is mapped, as mincore does.
  virtual void residency(std::byte* address, uint64_t length_bytes, unsigned char* pages) = 0;
};

}  // namespace weightpager
