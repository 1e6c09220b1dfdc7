#include "pager/pager.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/base/system_calls.h"
#include "pager/base/thread.h"
#include "pager/base/units.h"
#include "pager/policy/layer_order.h"

namespace weightpager {

using fault::Outcome;
using policy::Action;
using policy::ChunkId;
using window::ChunkState;

namespace {

// Reads that may be in flight beyond the prefetch depth: what engine threads wait for never queues
// here.
constexpr uint32_t demand_reads_max = 64;
// Slots kept ready beyond those in use, while the window fills.
constexpr uint32_t slots_ahead = 32;
// The kernel lets go of a page that a read has just filled within microseconds.
constexpr int64_t held_retry_ns = 50'000;
constexpr uint64_t sample_interval_ns = 200'000'000;
// Staging memory of the copy mapper.
constexpr uint32_t staging_slots_max = 64;

void add(telemetry::Counter& counter, uint64_t amount) {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

void set(telemetry::Counter& counter, uint64_t value) {
  counter.store(value, std::memory_order_relaxed);
}

void raise_to(telemetry::Counter& counter, uint64_t value) {
  if (value > counter.load(std::memory_order_relaxed)) set(counter, value);
}

}  // namespace

// A region with the file behind it and the chunks in front of it.
struct Pager::Served {
  std::unique_ptr<window::Region> region;
  io::ModelFile file;
  std::string name;
  model::Model model;  // kept: the order is told anew whenever a region comes or goes
  ChunkId first_chunk = 0;
  uint32_t live_chunks = 0;  // chunks of which the engine still has a page
  std::vector<bool> is_removed;

  /// Whether the engine sees the file's bytes there; holes may belong to anybody by now.
  bool shows(uintptr_t address) const {
    if (!region->contains(address)) return false;
    const uint32_t index = region->chunk_index(address);
    if (index >= region->chunks() || is_removed[index]) return false;
    const window::PageSet* pages = region->edge(index);
    return pages == nullptr || pages->test(address % chunk_bytes / os_page_bytes);
  }
  bool is_read_by(const window::ChunkTable& table) const {
    for (uint32_t i = 0; i < region->chunks(); ++i) {
      if (table.state(first_chunk + i) == ChunkState::reading) return true;
    }
    return false;
  }
};

struct Pager::Waiting {
  bool is_waited_for = false;  // an engine thread stands still at it
  bool is_doomed = false;      // removed while it was being read
};

// Lies on the stack of the engine thread that waits for it.
struct Pager::Command {
  enum class Kind { add_region, remove, advise, residency, stop } kind;
  const RegionRequest* request = nullptr;
  std::byte* address = nullptr;
  uint64_t length_bytes = 0;
  Advice advice = Advice::will_need;
  unsigned char* pages = nullptr;
  Result<std::byte*> result = nullptr;
  Command* next = nullptr;
  std::atomic<bool> is_done{false};
};

// ---- Engine side ----

Result<std::unique_ptr<Pager>> Pager::start(const PagerOptions& options) {
  WP_ASSERT(options.window_bytes >= window_bytes_min && options.telemetry != nullptr);
  const auto window_chunks = static_cast<uint32_t>(options.window_bytes / chunk_bytes);
  std::unique_ptr<Pager> it(new Pager(options, window_chunks));
  Status outcome;
  it->thread_ = start_thread("wp-pager", [&] { it->run(outcome); });
  it->is_started_.wait(false);
  if (outcome) return it;
  it->thread_.join();
  return forward_error(std::move(outcome));
}

Pager::Pager(const PagerOptions& options, uint32_t window_chunks)
    : options_(options), telemetry_(*options.telemetry), table_(window_chunks) {}

Pager::~Pager() {
  if (thread_.joinable()) {
    Command command{.kind = Command::Kind::stop};
    execute(command);
    thread_.join();
  }
}

Result<std::byte*> Pager::add_region(const RegionRequest& request) {
  Command command{.kind = Command::Kind::add_region, .request = &request};
  execute(command);
  return std::move(command.result);
}

void Pager::remove(std::byte* address, uint64_t length_bytes) {
  Command command{.kind = Command::Kind::remove, .address = address, .length_bytes = length_bytes};
  execute(command);
}

void Pager::advise(std::byte* address, uint64_t length_bytes, Advice advice) {
  Command command{.kind = Command::Kind::advise,
                  .address = address,
                  .length_bytes = length_bytes,
                  .advice = advice};
  execute(command);
}

void Pager::residency(std::byte* address, uint64_t length_bytes, unsigned char* pages) {
  Command command{.kind = Command::Kind::residency,
                  .address = address,
                  .length_bytes = length_bytes,
                  .pages = pages};
  execute(command);
}

void Pager::execute(Command& command) {
  command.next = commands_.load(std::memory_order_relaxed);
  while (!commands_.compare_exchange_weak(command.next, &command, std::memory_order_release,
                                          std::memory_order_relaxed)) {
  }
  doorbell_.ring();
  command.is_done.wait(false, std::memory_order_acquire);
}

// ---- The pager's thread ----

void Pager::run(Status& outcome) {
  // Without a descriptor table of its own the pager works, but an engine could close its
  // descriptors.
  if (unshare(CLONE_FILES) != 0) {
    notice(
        "unshare(CLONE_FILES) is refused here: an engine that closes all descriptors will be "
        "stopped by weightpager's checks");
  }
  // Serving a fault takes microseconds and lets an engine thread go on; it should not wait for a
  // turn.
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), -10);
  outcome = open_everything();
  const bool is_fine = outcome.has_value();
  is_started_ = true;
  is_started_.notify_one();
  if (is_fine) serve();
  // These descriptors exist in this thread's table only.
  reader_.reset();
  mapper_.reset();
  closing_.clear();
  uffd_.reset();
  // Last, because its thread may be ringing: with the userfaultfd gone nobody waits at the
  // doorbell.
  pool_.reset();
  if (statm_fd_ >= 0) ::close(statm_fd_);
}

Status Pager::open_everything() {
  auto uffd = fault::Userfaultfd::open();
  if (!uffd) return forward_error(std::move(uffd));
  uffd_.emplace(std::move(*uffd));
  if (uffd_->is_user_mode_only()) {
    notice(
        "no right to serve faults inside system calls: read(2) or write(2) on weights that are "
        "not resident fails with EFAULT. To mend it: setfacl -m u:$USER:rw /dev/userfaultfd");
  }

  auto mapper = window::choose_mapper(options_.mapper, *uffd_);
  if (!mapper) return forward_error(std::move(mapper));
  mapper_ = std::move(*mapper);
  if (options_.mapper == "auto" && !mapper_->keeps_slot()) {
    notice("this kernel has no UFFDIO_MOVE (Linux 6.8): chunks are copied, at about 0.6 ms each");
  }

  const uint32_t window_chunks = table_.resident_max();
  uint32_t slots = window_chunks;
  if (!mapper_->keeps_slot()) {
    slots = std::min(staging_slots_max, window_chunks / 4);
    table_.set_resident_max(window_chunks - slots);
  }
  auto pool = window::SlotPool::create(slots);
  if (!pool) return forward_error(std::move(pool));
  pool_ = std::move(*pool);

  // Requests to the device times their size, in chunks.
  const uint64_t in_flight_bytes =
      uint64_t{options_.device.queue_depth} * options_.device.read_bytes;
  const auto prefetch_reads_max = static_cast<uint32_t>(
      std::clamp<uint64_t>(in_flight_bytes / chunk_bytes, 4, std::max(window_chunks / 4, 4u)));
  policy_.emplace(table_, policy::Settings{.reads_max = prefetch_reads_max});

  if (auto done = doorbell_.hang(*uffd_); !done) return done;

  io::ReaderOptions reader_options;
  reader_options.watched_fd = uffd_->fd();
  reads_max_ = prefetch_reads_max + demand_reads_max;
  reader_options.reads_max = reads_max_;
  reader_options.read_bytes_max = chunk_bytes;
  reader_options.device_read_bytes = options_.device.read_bytes;
  auto reader = io::open_uring_reader(reader_options);
  if (!reader) {
    notice("io_uring is not available (" + reader.error().message +
           "): reading with threads, a little slower. " + reader.error().hint);
    reader = io::open_pread_reader(reader_options);
  }
  if (!reader) return forward_error(std::move(reader));
  reader_ = std::move(*reader);

  statm_fd_ = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  std::snprintf(telemetry_.mapper, sizeof telemetry_.mapper, "%s", mapper_->name());
  std::snprintf(telemetry_.reader, sizeof telemetry_.reader, "%s", reader_->name());
  set(telemetry_.window_bytes, uint64_t{window_chunks} * chunk_bytes);
  return {};
}

void Pager::serve() {
  while (!is_stopping_) {
    // 1. Sleep until a read is finished, a thread faults, or somebody rings.
    const io::Wakeup wakeup = reader_->wait(held_.empty() ? -1 : held_retry_ns);
    now_ns_ = telemetry::monotonic_ns();

    // 2. What was read is ready; what is waited for is mapped, and its toucher runs on.
    take_reads(wakeup);

    // 3. Faults: ready chunks are mapped at once, for the others the policy learns of the touch.
    if (wakeup.watched_fd_readable) take_faults();

    // 4. What engine threads ask for: regions, advice.
    take_commands();

    // 5. Chunks that could not be mapped because the kernel still held their pages.
    retry_held_chunks();

    // 6. While the window fills: memory that has arrived behind more slots.
    take_new_slots();

    // 7. Evict, hold and read what the policy wants, until it has no more wishes.
    carry_out_policy();

    // 8. Keep the counters.
    account();
  }
}

void Pager::take_reads(const io::Wakeup& wakeup) {
  for (const io::Completion& completion : wakeup.completions) {
    const auto chunk = static_cast<ChunkId>(completion.tag);
    Served& served = owner(chunk);
    const uint32_t index = chunk - served.first_chunk;
    const uint64_t expected_bytes = served.region->chunk_file_bytes(index);
    add(telemetry_.read_bytes, completion.length_bytes);
    if (waiting_[chunk].is_doomed) {
      waiting_[chunk].is_doomed = false;
      table_.finish_read(chunk);
      table_.release(chunk);
      close_idle_files();
      continue;
    }
    if (completion.error_number != 0) {
      fail_chunk(chunk, "reading the model file failed", completion.error_number);
      continue;
    }
    if (completion.length_bytes < expected_bytes) {
      fail_chunk(chunk, "the model file became shorter while it was in use", EIO);
      continue;
    }
    // The slot held another chunk before: behind the file's end mmap shows zeros.
    if (expected_bytes < chunk_bytes) {
      std::memset(slot_of(chunk) + expected_bytes, 0, chunk_bytes - expected_bytes);
    }
    if (!served.file.is_direct()) {
      kernel::fadvise(served.file.fd(), static_cast<off_t>(served.region->chunk_file_offset(index)),
                      static_cast<off_t>(chunk_bytes), POSIX_FADV_DONTNEED);
    }
    table_.finish_read(chunk);
    const bool wants_map = policy_->on_ready(chunk);
    if (wants_map || waiting_[chunk].is_waited_for) map(chunk);
  }
}

void Pager::take_faults() {
  std::array<uintptr_t, 64> addresses;
  for (;;) {
    const size_t faults = uffd_->read_faults(addresses);
    for (size_t i = 0; i < faults; ++i) take_fault(addresses[i]);
    if (faults < addresses.size()) return;
  }
}

void Pager::take_fault(uintptr_t address) {
  if (doorbell_.owns(address)) {
    is_rung_ = true;
    return doorbell_.answer(*uffd_, address);
  }
  Served* served = find(address);
  if (served == nullptr) return uffd_->wake(reinterpret_cast<void*>(address), os_page_bytes);
  const uint32_t index = served->region->chunk_index(address);
  const ChunkId chunk = served->first_chunk + index;
  const ChunkState state = table_.state(chunk);
  if (state == ChunkState::mapped || state == ChunkState::failed) {
    // An old message: the chunk came (or was given up) after it was sent.
    return uffd_->wake(reinterpret_cast<void*>(address), os_page_bytes);
  }
  // Every thread that touches the chunk sends a message, and one more after each signal.
  if (waiting_[chunk].is_waited_for) return;
  waiting_[chunk].is_waited_for = true;
  if (waiting_chunks_++ == 0) stalled_since_ns_ = now_ns_;
  set(telemetry_.last_event_ns, now_ns_);
  add(state == ChunkState::absent    ? telemetry_.faults_demand
      : state == ChunkState::reading ? telemetry_.faults_late
                                     : telemetry_.faults_tripwire,
      1);
  policy_->on_touch(chunk, static_cast<uint32_t>(address % chunk_bytes));
  if (state == ChunkState::ready) map(chunk);
}

void Pager::take_commands() {
  if (!is_rung_) return;
  is_rung_ = false;
  Command* newest = commands_.exchange(nullptr, std::memory_order_acquire);
  // The stack has the newest on top; serve in the order of arrival.
  Command* oldest = nullptr;
  while (newest != nullptr) {
    Command* next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  while (oldest != nullptr) {
    Command* command = oldest;
    oldest = command->next;
    switch (command->kind) {
      case Command::Kind::add_region:
        command->result = do_add_region(*command->request);
        break;
      case Command::Kind::remove:
        do_remove(command->address, command->length_bytes);
        break;
      case Command::Kind::advise:
        do_advise(*command);
        break;
      case Command::Kind::residency:
        do_residency(*command);
        break;
      case Command::Kind::stop:
        WP_ASSERT(regions_.empty());
        is_stopping_ = true;
        break;
    }
    // The command's memory is its owner's again as soon as the flag is set; waking needs no more
    // than its address.
    command->is_done.store(true, std::memory_order_release);
    command->is_done.notify_one();
  }
}

void Pager::retry_held_chunks() {
  const size_t count = held_.size();
  for (size_t i = 0; i < count; ++i) {
    const ChunkId chunk = held_.front();
    held_.erase(held_.begin());
    if (table_.state(chunk) == ChunkState::ready && waiting_[chunk].is_waited_for) map(chunk);
  }
}

void Pager::take_new_slots() {
  if (slots_taken_ == pool_->slots()) return;
  const uint32_t populated = pool_->populated();
  if (populated > slots_taken_) {
    const uint32_t count = populated - slots_taken_;
    auto prepared =
        mapper_->prepare_slots(pool_->address(slots_taken_), uint64_t{count} * chunk_bytes);
    if (!prepared) {
      report_error(prepared.error().message);
      std::abort();
    }
    for (; slots_taken_ < populated; ++slots_taken_) table_.add_slot(slots_taken_);
  }
  if (table_.free_slots() >= slots_ahead || regions_.empty()) return;
  pool_->want(
      slots_taken_ + slots_ahead, [](void* bell) { static_cast<fault::Doorbell*>(bell)->ring(); },
      &doorbell_);
}

void Pager::carry_out_policy() {
  while (reader_->reads_in_flight() < reads_max_) {
    const Action action = policy_->next();
    switch (action.kind) {
      case Action::Kind::none:
        return;
      case Action::Kind::read:
        start_read(action.chunk);
        break;
      case Action::Kind::evict:
        evict(action.chunk);
        break;
      case Action::Kind::hold:
        if (waiting_[action.chunk].is_waited_for || !unmap(action.chunk)) {
          policy_->on_refused(action.chunk);
        } else {
          table_.hold(action.chunk);
        }
        break;
    }
  }
}

void Pager::account() {
  const bool is_reading = reader_->reads_in_flight() > 0;
  if (is_reading && reading_since_ns_ == 0) {
    reading_since_ns_ = now_ns_;
  } else if (reading_since_ns_ != 0) {
    add(telemetry_.read_busy_ns, now_ns_ - reading_since_ns_);
    reading_since_ns_ = is_reading ? now_ns_ : 0;
  }
  const uint64_t resident_bytes = uint64_t{table_.resident()} * chunk_bytes;
  set(telemetry_.resident_bytes, resident_bytes);
  raise_to(telemetry_.resident_bytes_max, resident_bytes);
  const policy::PolicyStatistics& statistics = policy_->statistics();
  set(telemetry_.prefetch_hidden, statistics.prefetch_hidden);
  set(telemetry_.prefetch_unused, statistics.prefetch_unused);
  set(telemetry_.passes, statistics.passes);
  set(telemetry_.expert_uses, statistics.expert_uses);
  set(telemetry_.expert_misses, statistics.expert_misses);
  set(telemetry_.expert_missing_bytes, statistics.expert_chunks_missing * chunk_bytes);
  if (now_ns_ - sampled_ns_ < sample_interval_ns || statm_fd_ < 0) return;

  // The process's memory beside the slots: what the engine has on its own.
  sampled_ns_ = now_ns_;
  char text[128] = {};
  if (pread(statm_fd_, text, sizeof text - 1, 0) <= 0) return;
  unsigned long long resident_pages = 0;
  if (std::sscanf(text, "%*u %llu", &resident_pages) != 1) return;
  const uint64_t process_bytes = resident_pages * os_page_bytes;
  const uint64_t slot_bytes =
      std::max<uint64_t>(uint64_t{slots_taken_} * chunk_bytes, resident_bytes);
  raise_to(telemetry_.engine_bytes_max,
           process_bytes > slot_bytes ? process_bytes - slot_bytes : 0);
}

// ---- Chunks ----

Pager::Served* Pager::find(uintptr_t address) {
  for (const auto& served : regions_) {
    if (served->shows(address)) return served.get();
  }
  return nullptr;
}

std::byte* Pager::address_of(ChunkId chunk) {
  const Served& served = owner(chunk);
  return served.region->chunk_address(chunk - served.first_chunk);
}

std::byte* Pager::slot_of(ChunkId chunk) { return pool_->address(table_.slot(chunk)); }

void Pager::start_read(ChunkId chunk) {
  const Served& served = owner(chunk);
  const window::SlotId slot = table_.start_read(chunk);
  reader_->start({.tag = chunk,
                  .fd = served.file.fd(),
                  .offset_bytes = served.region->chunk_file_offset(chunk - served.first_chunk),
                  .length_bytes = static_cast<uint32_t>(chunk_bytes),
                  .buffer = pool_->address(slot)});
}

// ready → mapped. Wakes who waits for the chunk.
void Pager::map(ChunkId chunk) {
  const Served& served = owner(chunk);
  const uint32_t index = chunk - served.first_chunk;
  const bool is_edge = served.region->edge(index) != nullptr;
  const Outcome outcome = is_edge ? window::map_edge(*uffd_, *served.region, index, slot_of(chunk))
                                  : mapper_->map(address_of(chunk), slot_of(chunk));
  switch (outcome) {
    case Outcome::done:
      table_.map(chunk, !is_edge && mapper_->keeps_slot());
      stop_waiting(chunk);
      return;
    case Outcome::busy:
      // Nobody waits: it stays ready, a tripwire. Somebody waits: again in a moment.
      if (waiting_[chunk].is_waited_for) held_.push_back(chunk);
      return;
    case Outcome::exists:
      return fail_chunk(chunk, "the address range of the model was written to by somebody else",
                        EEXIST);
    case Outcome::failed:
      return fail_chunk(chunk, "the kernel refused to map it", errno);
  }
}

// Takes the chunk out of the region; with mappers that keep slots its bytes are then in its slot.
bool Pager::unmap(ChunkId chunk) {
  std::byte* slot = mapper_->keeps_slot() ? slot_of(chunk) : nullptr;
  return mapper_->unmap(address_of(chunk), slot) == Outcome::done;
}

void Pager::evict(ChunkId chunk) {
  const bool is_needed = waiting_[chunk].is_waited_for;
  const Served& served = owner(chunk);
  const bool is_mapped_edge = table_.state(chunk) == ChunkState::mapped &&
                              served.region->edge(chunk - served.first_chunk) != nullptr;
  if (is_needed || is_mapped_edge || (table_.state(chunk) == ChunkState::mapped && !unmap(chunk))) {
    return policy_->on_refused(chunk);
  }
  table_.release(chunk);
  add(telemetry_.evictions, 1);
}

void Pager::stop_waiting(ChunkId chunk) {
  if (!waiting_[chunk].is_waited_for) return;
  waiting_[chunk].is_waited_for = false;
  if (--waiting_chunks_ == 0)
    add(telemetry_.stall_ns, telemetry::monotonic_ns() - stalled_since_ns_);
}

// Never zeros: whoever touches the chunk gets SIGBUS, now and later.
void Pager::fail_chunk(ChunkId chunk, const char* what, int error_number) {
  Served& served = owner(chunk);
  const uint32_t index = chunk - served.first_chunk;
  char text[512];
  std::snprintf(text, sizeof text,
                "%s: %s, bytes %llu to %llu: %s; an engine that touches them gets SIGBUS",
                served.name.c_str(), what,
                static_cast<unsigned long long>(served.region->chunk_file_offset(index)),
                static_cast<unsigned long long>(served.region->chunk_file_offset(index) +
                                                served.region->chunk_file_bytes(index)),
                std::strerror(error_number));
  report_error(text);
  add(telemetry_.read_errors, 1);
  table_.fail(chunk);
  served.region->for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
    window::Region::seal(address, length_bytes);
    uffd_->wake(address, length_bytes);
  });
  stop_waiting(chunk);
}

// ---- Commands ----

Result<std::byte*> Pager::do_add_region(const RegionRequest& request) {
  auto file = io::ModelFile::open(request.path);
  if (!file) return forward_error(std::move(file));
  if (!file->is_direct()) {
    notice(request.name +
           ": no direct reads on this filesystem; weights go through the page cache "
           "and are dropped from it again, which costs CPU time");
  }
  auto region = window::Region::reserve({.offset_bytes = request.offset_bytes,
                                         .length_bytes = request.length_bytes,
                                         .file_size_bytes = file->size_bytes()});
  if (!region) return forward_error(std::move(region));
  auto served = std::make_unique<Served>(Served{.region = std::move(*region),
                                                .file = std::move(*file),
                                                .name = request.name,
                                                .model = {},
                                                .is_removed = {}});
  std::byte* const address = served->region->address();
  const uint32_t chunks = served->region->chunks();
  if (served->region->live_bytes() > 0) {
    auto done = uffd_->register_range(address, served->region->live_bytes());
    if (!done) return forward_error(std::move(done));
  }
  if (request.model != nullptr) served->model = *request.model;
  served->first_chunk = take_chunk_ids(chunks);
  served->live_chunks = chunks;
  served->is_removed.assign(chunks, false);
  for (uint32_t i = 0; i < chunks; ++i) owners_[served->first_chunk + i] = served.get();

  if (telemetry_.started_ns.load() == 0) set(telemetry_.started_ns, now_ns_);
  add(telemetry_.models, 1);
  add(telemetry_.model_bytes, served->region->live_bytes());
  regions_.push_back(std::move(served));
  tell_order();
  return address;
}

// Ids of a region that is gone are used again, if there are as many as needed in a row.
ChunkId Pager::take_chunk_ids(uint32_t count) {
  uint32_t free_in_a_row = 0;
  for (ChunkId chunk = 0; chunk < owners_.size(); ++chunk) {
    const bool is_free = owners_[chunk] == nullptr && !table_.is_resident(chunk);
    free_in_a_row = is_free ? free_in_a_row + 1 : 0;
    if (free_in_a_row < count) continue;
    const ChunkId first = chunk + 1 - count;
    for (ChunkId c = first; c <= chunk; ++c) {
      if (table_.state(c) == ChunkState::failed) table_.forget_failure(c);
    }
    return first;
  }
  const ChunkId first = table_.add_chunks(count);
  owners_.resize(table_.chunks(), nullptr);
  waiting_.resize(table_.chunks());
  held_.reserve(table_.chunks());
  return first;
}

void Pager::tell_order() {
  policy::ChunkOrder order;
  for (const auto& served : regions_) {
    const policy::ChunkRange range{served->first_chunk, served->region->chunks(),
                                   served->region->extent().offset_bytes};
    policy::append_chunk_order(served->model, 0, range, order);
  }
  const auto is_gone = [&](ChunkId chunk) {
    const Served& served = owner(chunk);
    return served.is_removed[chunk - served.first_chunk];
  };
  policy::erase_chunks(order, is_gone);
  policy_->set_order(order);
  // What was touched and not served yet must not be forgotten with the old order.
  for (ChunkId chunk = 0; chunk < waiting_.size(); ++chunk) {
    if (waiting_[chunk].is_waited_for) policy_->on_touch(chunk);
  }
  // At the end an engine unmaps everything; the report shall say how it was before.
  if (regions_.empty()) return;
  set(telemetry_.ring_bytes, uint64_t{policy_->ring_chunks()} * chunk_bytes);
  set(telemetry_.pinned_bytes, uint64_t{policy_->pinned_chunks()} * chunk_bytes);
}

void Pager::do_remove(std::byte* address, uint64_t length_bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = begin + round_up(length_bytes, os_page_bytes);
  bool is_changed = false;
  for (const auto& served : regions_) {
    const auto first = reinterpret_cast<uintptr_t>(served->region->address());
    const uintptr_t from = std::max(begin, first);
    const uintptr_t to = std::min(end, first + served->region->length_bytes());
    if (from >= to) continue;
    remove_from(*served, from, to);
    is_changed = true;
  }
  if (!is_changed) return;
  drop_removed_regions();
  tell_order();
}

void Pager::remove_from(Served& served, uintptr_t begin, uintptr_t end) {
  const auto first = reinterpret_cast<uintptr_t>(served.region->address());
  const uintptr_t live_end = std::min(end, first + served.region->live_bytes());
  for (uintptr_t at = begin; at < live_end;) {
    const uint32_t index = served.region->chunk_index(at);
    const auto chunk_begin = reinterpret_cast<uintptr_t>(served.region->chunk_address(index));
    const uintptr_t piece_end = std::min(live_end, chunk_begin + chunk_bytes);
    remove_pages(served, index, static_cast<uint32_t>((at - chunk_begin) / os_page_bytes),
                 static_cast<uint32_t>((piece_end - at) / os_page_bytes));
    at = piece_end;
  }
  kernel::munmap(reinterpret_cast<void*>(begin), end - begin);
  uffd_->wake(reinterpret_cast<void*>(begin), end - begin);
}

// The pages are about to be unmapped. A whole chunk gives its slot back first; a chunk that loses a
// part becomes an edge: what is left of it is brought in page by page, and stays.
void Pager::remove_pages(Served& served, uint32_t index, uint32_t first, uint32_t count) {
  if (served.is_removed[index]) return;
  const ChunkId chunk = served.first_chunk + index;
  const bool had_slot = table_.slot(chunk) != window::no_slot;
  if (table_.state(chunk) == ChunkState::mapped && had_slot) {
    if (unmap(chunk)) {
      table_.hold(chunk);
    } else {
      // Somebody pins the pages: they go with the mapping, and the slot gets other memory.
      const Outcome refilled = uffd_->copy(slot_of(chunk), address_of(chunk), chunk_bytes);
      WP_ASSERT(refilled == Outcome::done);
      kernel::madvise(address_of(chunk), chunk_bytes, MADV_DONTNEED);
      table_.hold(chunk);
    }
  }
  if (served.region->drop_pages(index, first, count)) {
    served.is_removed[index] = true;
    --served.live_chunks;
    stop_waiting(chunk);
    if (table_.state(chunk) == ChunkState::reading) {
      waiting_[chunk].is_doomed = true;
    } else if (table_.is_resident(chunk)) {
      table_.release(chunk);
    }
    return;
  }
  if (table_.state(chunk) == ChunkState::ready) map(chunk);
}

// A region whose last page is gone is forgotten, but its file stays open while a read needs it.
void Pager::drop_removed_regions() {
  const auto is_gone = [](const std::unique_ptr<Served>& it) { return it->live_chunks == 0; };
  const auto gone = std::stable_partition(regions_.begin(), regions_.end(), std::not_fn(is_gone));
  for (auto it = gone; it != regions_.end(); ++it) {
    (*it)->region->abandon();
    closing_.push_back(std::move(*it));
  }
  regions_.erase(gone, regions_.end());
  close_idle_files();
}

void Pager::close_idle_files() {
  std::erase_if(closing_, [&](const std::unique_ptr<Served>& served) {
    if (served->is_read_by(table_)) return false;
    for (uint32_t i = 0; i < served->region->chunks(); ++i) {
      owners_[served->first_chunk + i] = nullptr;
    }
    return true;
  });
}

void Pager::do_advise(const Command& command) {
  std::vector<ChunkId> chunks;
  const auto begin = reinterpret_cast<uintptr_t>(command.address);
  for (uintptr_t at = begin; at < begin + command.length_bytes;
       at = round_down(at, chunk_bytes) + chunk_bytes) {
    const Served* served = find(at);
    if (served != nullptr) chunks.push_back(served->first_chunk + served->region->chunk_index(at));
  }
  if (command.advice == Advice::will_need) {
    policy_->will_need(chunks);
  } else {
    policy_->consumed(chunks);
  }
}

void Pager::do_residency(const Command& command) {
  const auto begin = reinterpret_cast<uintptr_t>(command.address);
  for (uint64_t page = 0; page < command.length_bytes / os_page_bytes; ++page) {
    const uintptr_t at = begin + page * os_page_bytes;
    const Served* served = find(at);
    const bool is_mapped =
        served != nullptr &&
        table_.state(served->first_chunk + served->region->chunk_index(at)) == ChunkState::mapped;
    command.pages[page] = is_mapped ? 1 : 0;
  }
}

}  // namespace weightpager
