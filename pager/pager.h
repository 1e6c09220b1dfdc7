// The pager of a process: a thread-safe front of the thread that serves the faults of all regions
// from one window (loop/pager_loop.h).
//
// Each function has its work done by that thread, between two faults, and blocks until it is done
// (fault/command_stack.h). Any thread may call it but the pager's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "pager/base/result.h"
#include "pager/base/span.h"
#include "pager/loop/pager_loop.h"
#include "pager/loop/pager_options.h"
#include "pager/loop/pager_view.h"
#include "pager/loop/paging_service.h"
#include "pager/telemetry/event_ring.h"
#include "pager/window/address_space.h"

namespace weightpager {

class Pager final : public PagingService {
 public:
  using Guest = window::AddressSpace;

  /// Starts the thread. Fails if this kernel or container has no userfaultfd or the mapper asked
  /// for does not work.
  static Result<std::unique_ptr<Pager>> start(const PagerOptions& options);
  /// Requires that every region was removed.
  ~Pager() override;

  bool is_user_mode_only() const override { return loop_.is_user_mode_only(); }
  Result<std::byte*> add_region(const RegionRequest& request) override;
  void remove(std::byte* address, uint64_t length_bytes) override;
  void advise(std::byte* address, uint64_t length_bytes, Advice advice) override;
  void protect(std::byte* address, uint64_t length_bytes, bool is_accessible) override;
  std::string file_link(std::byte* address) override;
  std::vector<Span> written_spans() override;
  void residency(std::byte* address, uint64_t length_bytes, unsigned char* pages) override;

  // These too may be called by any thread but the pager's own, and block until done.

  // For whoever looks on (pager/control).

  /// Makes the window larger or smaller, within its least size and window_bytes_max; returns the
  /// size that it has now. What is too much is evicted as soon as the kernel lets go of it.
  uint64_t resize(uint64_t window_bytes);
  uint64_t window_bytes_max() const { return loop_.window_bytes_max(); }

  /// The files that are served, as many as `views` has room for; returns how many there are.
  size_t look(std::span<FileView> views);
  /// The states of the chunks from `first` on, as many as `states` has room for; returns how many
  /// chunks there are. A nanosecond a chunk of the pager's time.
  uint32_t look(policy::ChunkId first, std::span<ChunkView> states);
  /// The names of the files that the engine read into memory of its own, by their numbers.
  std::vector<std::string> lazy_files();
  /// Events go there from now on, which outlives the pager or the next call; nullptr: nowhere.
  void trace_to(telemetry::EventRing* events);
  /// Fails, listing the names, if there is no such policy that can be used live.
  Status change_policy(const std::string& name);
  bool adapts() const { return loop_.adapts(); }
  /// These chunks shall be the first to stay, and no others any more that were asked for before;
  /// returns how many of them the policy has room for.
  uint32_t keep(std::span<const policy::ChunkId> chunks);
  /// Out of memory, pinned or not, but for what is being read, waited for, or held by the kernel;
  /// returns how many went.
  uint32_t evict(std::span<const policy::ChunkId> chunks);
  /// The same of every chunk that is not pinned.
  uint32_t drop();

  // Memory of the engine's own. Requires options.spill_folder.

  /// Reserves memory that reads as zeros; returns its address.
  Result<std::byte*> add_spilled_memory(const SpilledMemoryRequest& request);
  /// The chunks that lie wholly in the range read as zeros from now on. Returns false if some could
  /// not be taken out, because somebody pins their pages: their bytes are as before.
  bool forget(std::byte* address, uint64_t length_bytes);
  /// The memory has the file's bytes from now on, which are read when they are touched. Requires
  /// whole chunks. Returns how many bytes, from the first one on, that holds for; what lies behind
  /// them is as before.
  Result<uint64_t> read_lazily(const LazyRead& read);
  /// What was read lazily of this file does not depend on the file any more, once what begins at
  /// the addresses that are returned has been touched. nullptr: the same of all that a child
  /// process could not map.
  std::vector<std::byte*> give_up_file(const io::FileIdentity* file);
  /// To be called before fork(2): returns the parts of spilled memory that the child has to map
  /// itself. Nothing of it leaves the window until end_fork(), which the parent calls after
  /// fork(2).
  std::vector<InheritedPart> begin_fork();
  void end_fork();

  // For guests: other processes that attach to this pager (pager/attach). Requires
  // options.serves_guests.

  /// Serves a file of which guests may show any part, for as long as the pager lives. Of the
  /// request only path, name and model count.
  Result<const ServedFile*> keep_file(const RegionRequest& request);
  /// A link to the file, if it was changed since it was opened: to serve it anew by; else "".
  std::string link_if_changed(const ServedFile* served);
  /// Serves it no longer than guests show it. Its object may be gone then.
  void forsake_file(const ServedFile* served);
  Result<Guest*> add_guest(std::unique_ptr<Guest> guest);
  /// The guest has reserved the extent at `address`, which lies as far off the 2 MiB grid as the
  /// extent's offset, and registered it with its userfaultfd as a view of the file's memory.
  Status add_guest_region(Guest* guest, const ServedFile* served, const window::Extent& extent,
                          std::byte* address);
  /// As remove() and advise(), in the guest's memory; it unmaps what it has mapped itself.
  void remove_from_guest(Guest* guest, std::byte* address, uint64_t length_bytes);
  void advise_for_guest(Guest* guest, std::byte* address, uint64_t length_bytes, Advice advice);
  /// With all its regions; the guest object is gone then.
  void remove_guest(Guest* guest);

 private:
  explicit Pager(const PagerOptions& options) : loop_(options) {}

  PagerLoop loop_;
  std::thread thread_;
};

}  // namespace weightpager
