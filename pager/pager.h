// The pager: one thread that serves the faults of all regions of a process from one window.
//
// Way of a fault: fault/ → Pager → policy/ says what → io/ brings it into a slot → window/ maps it
// → the engine runs on. Start reading at Pager::serve (pager.cc), one flat loop; what engine
// threads ask for is in pager_commands.cc.
//
// The pager's thread has a file descriptor table of its own: an engine that closes descriptors it
// does not know (daemons do) cannot close the userfaultfd, which would turn absent chunks into
// zeros. It takes no lock and allocates nothing while it serves faults; engine threads talk to it
// by commands, which lie on their stacks, and ring its doorbell (fault/doorbell.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "pager/base/units.h"
#include "pager/fault/command_stack.h"
#include "pager/fault/doorbell.h"
#include "pager/fault/userfaultfd.h"
#include "pager/io/model_file.h"
#include "pager/io/reader.h"
#include "pager/lessons/kept_lesson.h"
#include "pager/lessons/lesson_record.h"
#include "pager/pager_view.h"
#include "pager/paging_service.h"
#include "pager/policy/make_policy.h"
#include "pager/served_file.h"
#include "pager/shadow/adaptation.h"
#include "pager/shadow/judge_thread.h"
#include "pager/telemetry/event_ring.h"
#include "pager/telemetry/telemetry.h"
#include "pager/telemetry/touch_record.h"
#include "pager/window/address_space.h"
#include "pager/window/chunk_table.h"
#include "pager/window/mapper.h"
#include "pager/window/memory_headroom.h"
#include "pager/window/module_window.h"
#include "pager/window/page_map.h"
#include "pager/window/region.h"
#include "pager/window/run.h"
#include "pager/window/slot_pool.h"
#include "pager/window/tripwires.h"

namespace weightpager {

/// The smallest window that still lets a few threads read and a ring turn.
inline constexpr uint64_t window_bytes_min = 32 * MiB;
/// What one process may have mapped at once.
inline constexpr size_t regions_max = 1024;

struct PagerOptions {
  uint64_t window_bytes = 0;
  /// How large resize() may make it; 0: no larger than window_bytes.
  uint64_t window_bytes_max = 0;
  /// Other processes attach to this pager (pager/attach). Requires the mapper "collapse" or
  /// "module", and a process in which nobody closes descriptors that are not his.
  bool serves_guests = false;
  /// Shrink the window before the memory limit is reached (window/memory_headroom.h).
  bool follows_memory_limit = false;
  /// One of window::mapper_names.
  std::string mapper = "auto";
  /// One that check_policy() finds fit to be used live.
  std::string policy{policy::adaptive_policy};
  /// What "auto" is chosen for: regions that are writable, or those that are not.
  bool expects_writable = false;
  /// Of all regions; see policy/chunk_size.h.
  uint64_t chunk_bytes = chunk_bytes_max;
  /// What the device under the models likes (io::device_limits).
  io::DeviceLimits device;
  /// The window has all its memory before anything is served, so that what is measured does not
  /// wait for the kernel to hand it out. (Not memory that is shared, which comes as it is read
  /// into.)
  bool gets_memory_first = false;
  /// What reads, where it shall be neither io_uring nor pread: tests of disks that go wrong. Called
  /// once, by the pager's thread.
  std::function<Result<std::unique_ptr<io::Reader>>(const io::ReaderOptions&)> open_reader;
  /// Called on other threads before they get memory for some slots: tests of memory that comes
  /// slowly (window/slot_pool.h).
  std::function<void(window::SlotId)> before_memory;
  /// Who compares policies while the adaptive one is in use, on a thread of its own: tests know the
  /// verdict beforehand.
  shadow::Judge judge = shadow::judge;
  /// Where the counters go; not owned, outlives the pager.
  telemetry::Telemetry* telemetry = nullptr;
  /// Where every touch is written down, for a trace; not owned, outlives the pager. Chunks are then
  /// only shown when they are touched, and taken away again, with their bytes kept, when enough
  /// others were touched since: touching them costs a fault each time. nullptr: no record.
  telemetry::TouchRecord* touch_record = nullptr;
  /// Where lessons of earlier runs are kept (lessons/lesson_shelf.h); "": nowhere.
  std::string lesson_directory;
  /// Where this run's lesson goes; not owned, outlives the pager. nullptr: nowhere.
  lessons::LessonRecord* lesson_record = nullptr;
};

class Pager final : public PagingService {
 public:
  using Guest = window::AddressSpace;

  /// Starts the thread. Fails if this kernel or container has no userfaultfd or the mapper asked
  /// for does not work.
  static Result<std::unique_ptr<Pager>> start(const PagerOptions& options);
  /// Requires that every region was removed.
  ~Pager() override;

  bool is_user_mode_only() const override { return is_user_mode_only_; }
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
  uint64_t window_bytes_max() const { return window_chunks_max_ * chunk_bytes_; }

  /// The files that are served, as many as `views` has room for; returns how many there are.
  size_t look(std::span<FileView> views);
  /// The states of the chunks from `first` on, as many as `states` has room for; returns how many
  /// chunks there are. A nanosecond a chunk of the pager's time.
  uint32_t look(policy::ChunkId first, std::span<ChunkView> states);
  /// Events go there from now on, which outlives the pager or the next call; nullptr: nowhere.
  void trace_to(telemetry::EventRing* events);
  /// Fails, listing the names, if there is no such policy that can be used live.
  Status change_policy(const std::string& name);
  bool adapts() const { return adapts_.load(std::memory_order_relaxed); }
  /// These chunks shall be the first to stay, and no others any more that were asked for before;
  /// returns how many of them the policy has room for.
  uint32_t keep(std::span<const policy::ChunkId> chunks);
  /// Out of memory, pinned or not, but for what is being read, waited for, or held by the kernel;
  /// returns how many went.
  uint32_t evict(std::span<const policy::ChunkId> chunks);
  /// The same of every chunk that is not pinned.
  uint32_t drop();

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
  struct Waiting {
    bool is_waited_for = false;  // an engine thread stands still at it
    bool is_doomed = false;      // removed while it was being read
    bool is_stale = false;       // its file was changed while it was being read: once more
    bool is_read_again = false;  // and then no more
    window::ChunkState touched_in = window::ChunkState::absent;
    uint64_t touched_ns = 0;
    uint64_t read_ns = 0;  // when its read was started; of a run, the first one's
  };
  /// Where an address lies.
  struct Place {
    window::Region* region = nullptr;
    ServedFile* served = nullptr;

    std::pair<const window::AddressSpace*, uintptr_t> key() const {
      return {&region->space(), reinterpret_cast<uintptr_t>(region->address())};
    }
  };

  Pager(const PagerOptions& options, uint32_t window_chunks);

  // Engine side.
  template <typename Act>
  void execute(Act act) {
    commands_.execute(doorbell_, act);
  }

  // The pager's thread.
  Status open_everything();
  Status open_userfaultfd();
  Status open_mapper();
  Status make_memory();
  Status begin_policy();
  Status open_reader();
  void begin_record();
  void run(std::promise<Status>& opened);
  void serve();
  int64_t sleep_max_ns() const;
  void take_reads(const io::Wakeup& wakeup);
  bool take_chunk(policy::ChunkId chunk, int error_number, uint64_t arrived_bytes);
  void tell_of_late_read();
  Status watch_faults(int fd);
  void take_all_faults();
  void take_faults(window::AddressSpace& space);
  void take_touches();
  void take_touch(policy::ChunkId chunk, const fault::Fault& fault);
  void take_fault(window::AddressSpace& space, const fault::Fault& fault);
  bool ends_there(const ServedFile& served, policy::ChunkId chunk, uint64_t length_bytes) const;
  void take_write(ServedFile& served, window::Region& region, uintptr_t touched);
  void take_commands();
  void record_touch(policy::ChunkId chunk, uint32_t offset_bytes);
  bool take_out_of_sight(policy::ChunkId chunk, bool is_used_whole);
  bool set_tripwire(policy::ChunkId chunk);
  window::Region* tripped_in(policy::ChunkId chunk) const;
  bool take_tripwire_back(policy::ChunkId chunk);
  void retry_held_chunks();
  void take_new_slots();
  void adapt();
  void begin_sample();
  void ask_judge();
  bool can_adapt() const;
  void begin_adapting(std::string_view name);
  void end_adapting();
  void adopt(std::string_view name);
  void take_over(std::string_view name);
  void make_policy(std::string_view name);
  shadow::Progress progress() const;
  policy::PolicyStatistics statistics() const;
  bool is_hiding() const;
  void carry_out_policy();
  void account();
  void account_parts();
  void keep_lesson();
  uint64_t engine_bytes() const;

  void prepare_slots(window::SlotId first, uint32_t count);
  void ask_for_slots();
  void grow_to(uint32_t chunks);
  void get_all_memory();
  window::SlotId take_permit();
  void refill_slots(uint32_t slots_max);
  bool slots_stay_registered() const;
  void trim_slots();
  void fit_table_to_window();
  void set_window(uint32_t chunks);
  void follow_memory_limit();

  void start_read(policy::ChunkId chunk);
  bool goes_along(const window::Run& run, policy::ChunkId chunk, uint32_t count_max) const;
  void hand_over_reads();
  void start_reader(const window::Run& run);
  window::Region* moves_to(policy::ChunkId chunk) const;
  void map(const window::Run& run);
  bool show_at_once(const window::Run& run);
  void map(policy::ChunkId chunk);
  bool show_own(policy::ChunkId chunk, fault::Outcome& outcome);
  bool show_shared(policy::ChunkId chunk, fault::Outcome& outcome);
  fault::Outcome place(window::Region& region, uint32_t index, std::byte* bytes);
  static void show_again(const window::Region& region, uint32_t index);
  static void wake_live_pages(const window::Region& region, uint32_t index);
  bool take_out(policy::ChunkId chunk);
  void give_back_memory(policy::ChunkId chunk);
  void release(policy::ChunkId chunk);
  void hold(policy::ChunkId chunk, bool is_used_whole);
  void move_to_waiter(policy::ChunkId chunk);
  void evict(const window::Run& run);
  uint32_t hide_at_once(const window::Run& run);
  void evict(policy::ChunkId chunk);
  void release_if_nowhere(policy::ChunkId chunk);
  void fail_chunk(policy::ChunkId chunk, const char* what, int error_number);
  bool look_at(ServedFile& served);
  void look_at_files();
  static void tell_change(ServedFile& served);
  void drop_stale_chunks(const ServedFile& served);
  bool reads_again(policy::ChunkId chunk);
  void report_failure(const ServedFile& served, uint64_t begin_bytes, uint64_t end_bytes,
                      const char* what, int error_number);
  void seal_from(policy::ChunkId chunk, uint32_t first);
  void stop_waiting(policy::ChunkId chunk);
  void account_wait(policy::ChunkId chunk);
  void account_show(uint32_t chunks, uint64_t began_ns);
  void account_take_out(uint32_t chunks, uint64_t began_ns);
  void note(telemetry::EventKind kind, policy::ChunkId chunk, uint32_t count = 1);
  static void wake_page(const window::AddressSpace& space, uintptr_t address);
  void seal(const window::Region& region, std::byte* address, uint64_t length_bytes);

  Result<std::byte*> do_add_region(const RegionRequest& request);
  Result<ServedFile*> serve_file(const RegionRequest& request);
  Result<ServedFile*> serve_anew(const RegionRequest& request, io::ModelFile file);
  void show_in(ServedFile& served, std::unique_ptr<window::Region> region);
  Result<const ServedFile*> do_keep_file(const RegionRequest& request);
  std::string do_link_if_changed(ServedFile& served);
  void do_forsake_file(ServedFile& served);
  ServedFile& kept_file(const ServedFile* served) const;
  Result<Guest*> do_add_guest(std::unique_ptr<Guest> guest);
  Status do_add_guest_region(Guest& guest, const ServedFile* file, const window::Extent& extent,
                             std::byte* address);
  void do_remove_guest(Guest* guest);
  void do_remove(const window::AddressSpace& space, std::byte* address, uint64_t length_bytes);
  void remove_pages(const Place& place, uint32_t index, uint32_t first, uint32_t count);
  void take_back_slot(window::Region& region, uint32_t index, policy::ChunkId chunk);
  void do_protect(std::byte* address, uint64_t length_bytes, bool is_accessible);
  void do_advise(const window::AddressSpace& space, std::byte* address, uint64_t length_bytes,
                 Advice advice);
  static void discard_pages(const window::Region& region, uintptr_t begin, uintptr_t end);
  void discard_written(const Place& place, uintptr_t begin, uintptr_t end);
  void do_residency(std::byte* address, uint64_t length_bytes, unsigned char* pages);
  std::vector<Span> find_written_spans() const;
  uint64_t do_resize(uint64_t window_bytes);
  Status do_change_policy(const std::string& name);
  uint32_t do_keep(std::span<const policy::ChunkId> chunks);
  uint32_t do_evict(std::span<const policy::ChunkId> chunks);
  uint32_t do_drop();
  std::string find_file_link(std::byte* address);
  policy::ChunkId take_chunk_ids(uint32_t count);
  void drop_removed_regions();
  void close_idle_files();
  void find_lesson();
  policy::Lesson lesson() const;
  std::vector<lessons::NumberedFile> numbered_files() const;
  policy::ChunkOrder find_order(uint32_t& shown_chunks) const;
  void tell_order();

  Place find(const window::AddressSpace& space, uintptr_t address) const;
  ServedFile& owner(policy::ChunkId chunk) const { return *owners_[chunk]; }
  std::byte* memory_of(policy::ChunkId chunk) const;
  bool shares_memory() const { return mapper_->shares_memory(); }

  const PagerOptions options_;
  const uint64_t chunk_bytes_;
  telemetry::Telemetry& telemetry_;
  uint32_t window_chunks_max_;      // less than asked for where address space is short
  const uint32_t read_chunks_max_;  // that one request reads
  const uint32_t move_chunks_max_;  // that one call of the kernel shows or takes out

  // Set up by the pager's thread, used by it alone.
  std::optional<window::AddressSpace> own_;
  std::vector<std::unique_ptr<window::AddressSpace>> guests_;
  std::unique_ptr<window::Mapper> mapper_;
  std::unique_ptr<io::Reader> reader_;
  std::unique_ptr<window::SlotPool> pool_;  // nullptr: memory is shared, and slots are only counted
  std::unique_ptr<window::ModuleWindow> module_;  // where the memory that is shared is the module's
  std::optional<window::Tripwires> tripwires_;    // where chunks are small, and moved
  std::optional<window::MemoryHeadroom> headroom_;
  std::optional<window::PageMap> page_map_;
  window::ChunkTable table_;
  policy::Settings policy_settings_;
  std::unique_ptr<policy::Policy> policy_;
  policy::PolicyStatistics statistics_before_;  // of former policies
  std::optional<shadow::Adaptation> adaptation_;
  std::unique_ptr<shadow::JudgeThread> judge_;
  telemetry::PrivateTouchRecord sample_;      // for the judge
  telemetry::TouchRecord* record_ = nullptr;  // where touches are written down now, or nullptr
  policy::ChunkId unhidden_ = 0;  // chunks from here on were not yet hidden for the sample
  std::vector<std::unique_ptr<ServedFile>> files_;
  std::vector<Place> regions_;                 // of all files, by address space and address
  std::vector<ServedFile*> owners_;            // by chunk; nullptr: the id is unused
  std::vector<window::SlotId> emptied_slots_;  // that gave their memory back
  std::vector<Waiting> waiting_;               // by chunk
  std::vector<policy::ChunkId> kept_;          // that were asked to stay
  std::optional<lessons::KeptLesson>
      kept_lesson_;  // an earlier run's, until there is one of our own
  uint64_t lessons_learned_ = 0;
  std::vector<policy::ChunkId> recorded_;  // touched last, for a record; a ring
  size_t recorded_next_ = 0;
  std::vector<policy::ChunkId> held_;  // waited for, but the kernel holds their pages
  window::Run reads_to_start_;         // as one request
  uint32_t reads_max_ = 0;
  uint32_t slots_taken_ = 0;
  uint32_t waiting_chunks_ = 0;
  uint64_t now_ns_ = 0;
  uint64_t stalled_since_ns_ = 0;
  uint64_t stall_shared_out_ns_ = 0;  // until when layers have their part of it
  uint64_t reading_since_ns_ = 0;
  uint64_t sampled_ns_ = 0;
  uint64_t order_told_ns_ = 0;
  uint64_t headroom_seen_ns_ = 0;
  uint64_t files_seen_ns_ = 0;
  uint32_t window_chunks_;         // now
  uint32_t window_chunks_there_;   // of these: less while memory for a larger window is made
  uint32_t window_chunks_wanted_;  // as far as the memory limit allows
  bool has_told_of_limit_ = false;
  bool has_told_of_late_read_ = false;
  OwnedFd watch_;  // for the faults of all address spaces, where there are guests
  OwnedFd process_status_;
  bool is_order_stale_ = false;             // the engine made chunks its own
  telemetry::EventRing* events_ = nullptr;  // while somebody traces
  bool is_verdict_unwanted_ = false;        // what was asked about is over
  bool is_rung_ = false;
  bool is_stopping_ = false;
  bool is_user_mode_only_ = false;  // written before the thread is said to be started

  // Between the threads.
  fault::Doorbell doorbell_;
  fault::CommandStack commands_;
  std::atomic<bool> adapts_{false};
  std::thread thread_;
};

}  // namespace weightpager
