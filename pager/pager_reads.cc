// Reads: from the file into slots, neighbours with one request, and what becomes of bytes that do
// not come.
//
// What a file no longer has, because it became shorter, is sealed like what the disk cannot read:
// whoever touches it gets SIGBUS, never zeros.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "pager/base/log.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"
#include "pager/pager.h"
#include "pager/telemetry/probes.h"

namespace weightpager {

namespace probes = telemetry::probes;
using policy::ChunkId;
using telemetry::add;
using telemetry::EventKind;
using window::ChunkState;
using window::Region;
using window::Run;

namespace {

// What a read is called: its first chunk, and how many there are.
constexpr uint32_t tag_count_shift = 32;

// A disk that works has answered by then.
constexpr uint64_t told_late_ns = 1'000'000'000;

}  // namespace

// absent → reading. What lies behind the chunks that are to be read already goes with them.
void Pager::start_read(ChunkId chunk) {
  table_.start_read(chunk);
  if (!goes_along(reads_to_start_, chunk, read_chunks_max_)) {
    hand_over_reads();
    reads_to_start_ = {chunk, 0};
  }
  ++reads_to_start_.count;
}

// Whether the chunk lies behind the last one of the run, in its file and in its slot, and the run
// may still become longer.
bool Pager::goes_along(const Run& run, ChunkId chunk, uint32_t count_max) const {
  return window::comes_next(run, chunk, count_max) && &owner(chunk) == &owner(run.first) &&
         memory_of(chunk) == memory_of(run.first) + run.count * chunk_bytes_;
}

void Pager::hand_over_reads() {
  if (reads_to_start_.count > 0) start_reader(reads_to_start_);
  reads_to_start_.count = 0;
}

void Pager::start_reader(const Run& run) {
  const ServedFile& served = owner(run.first);
  probes::read_begin(run.first, run.count, served.offset_of(run.first), run.count * chunk_bytes_);
  waiting_[run.first].read_ns = telemetry::monotonic_ns();
  note(EventKind::read, run.first, run.count);
  reader_->start({.tag = uint64_t{run.count} << tag_count_shift | run.first,
                  .fd = served.file.fd(),
                  .offset_bytes = served.offset_of(run.first),
                  .length_bytes = static_cast<uint32_t>(run.count * chunk_bytes_),
                  .buffer = memory_of(run.first)});
}

std::byte* Pager::memory_of(ChunkId chunk) const {
  const ServedFile& served = owner(chunk);
  return shares_memory() ? served.memory->at(served.offset_of(chunk), table_.slot(chunk))
                         : pool_->address(table_.slot(chunk));
}

void Pager::take_reads(const io::Wakeup& wakeup) {
  Run wanted;
  for (const io::Completion& completion : wakeup.completions) {
    const Run read{static_cast<ChunkId>(completion.tag),
                   static_cast<uint32_t>(completion.tag >> tag_count_shift)};
    probes::read_end(read.first, read.count, completion.length_bytes, completion.error_number);
    add(telemetry_.read_bytes, completion.length_bytes);
    telemetry_.read_latency_ns.add(now_ns_ - std::min(now_ns_, waiting_[read.first].read_ns));
    note(EventKind::arrive, read.first, read.count);
    look_at(owner(read.first));
    // An error stays where it is: the others' bytes may be fine.
    if (completion.error_number != 0 && read.count > 1) {
      for (uint32_t i = 0; i < read.count; ++i) start_reader({read.first + i, 1});
      continue;
    }
    for (uint32_t i = 0; i < read.count; ++i) {
      const uint64_t begin_bytes = i * chunk_bytes_;
      const uint64_t arrived_bytes = std::min(
          std::max<uint64_t>(completion.length_bytes, begin_bytes) - begin_bytes, chunk_bytes_);
      const ChunkId chunk = read.first + i;
      if (reads_again(chunk)) continue;
      if (!take_chunk(chunk, completion.error_number, arrived_bytes)) continue;
      if (!goes_along(wanted, chunk, move_chunks_max_)) {
        map(wanted);
        wanted = {chunk, 0};
      }
      ++wanted.count;
    }
  }
  map(wanted);
}

// Who waits for what does not come shall know for what, and why. Once: the disk may be a slow one.
void Pager::tell_of_late_read() {
  if (has_told_of_late_read_) return;
  for (ChunkId chunk = 0; chunk < table_.chunks(); ++chunk) {
    const bool is_late = waiting_[chunk].is_waited_for &&
                         table_.state(chunk) == ChunkState::reading &&
                         now_ns_ - std::min(now_ns_, waiting_[chunk].touched_ns) > told_late_ns;
    if (!is_late) continue;
    has_told_of_late_read_ = true;
    const ServedFile& served = owner(chunk);
    char text[512];
    std::snprintf(
        text, sizeof text,
        "%s: the engine has waited for bytes %llu to %llu for a second: the disk is slow or "
        "hangs (see `dmesg`), or a program holds the file's lock: one that writes into the "
        "file out of these weights, by other calls than libc's, waits for itself",
        served.name.c_str(), static_cast<unsigned long long>(served.offset_of(chunk)),
        static_cast<unsigned long long>(served.offset_of(chunk) + served.bytes_of(chunk)));
    return report_error(text);
  }
}

// reading → ready. Returns whether it is to be mapped.
bool Pager::take_chunk(ChunkId chunk, int error_number, uint64_t arrived_bytes) {
  ServedFile& served = owner(chunk);
  const uint64_t expected_bytes = served.bytes_of(chunk);
  if (waiting_[chunk].is_doomed) {
    waiting_[chunk].is_doomed = false;
    table_.finish_read(chunk);
    release(chunk);
    close_idle_files();
    return false;
  }
  if (error_number != 0) {
    fail_chunk(chunk, "reading the model file failed", error_number);
    return false;
  }
  if (arrived_bytes < expected_bytes) {
    const char* const what = "the model file became shorter while it was in use";
    if (!ends_there(served, chunk, arrived_bytes)) {
      fail_chunk(chunk, what, EIO);
      return false;
    }
    report_failure(served, served.offset_of(chunk) + arrived_bytes,
                   served.offset_of(chunk) + expected_bytes, what, EIO);
    seal_from(chunk, static_cast<uint32_t>(round_up(arrived_bytes, os_page_bytes) / os_page_bytes));
  }
  // The slot held another chunk before: behind the file's end mmap shows zeros.
  if (arrived_bytes < chunk_bytes_) {
    std::memset(memory_of(chunk) + arrived_bytes, 0, chunk_bytes_ - arrived_bytes);
  }
  if (!served.file.is_direct()) {
    kernel::fadvise(served.file.fd(), static_cast<off_t>(served.offset_of(chunk)),
                    static_cast<off_t>(chunk_bytes_), POSIX_FADV_DONTNEED);
  }
  if (shares_memory()) served.memory->finish_chunk(served.offset_of(chunk));
  table_.finish_read(chunk);
  const bool wants_map = policy_->on_ready(chunk) && record_ == nullptr;
  return wants_map || waiting_[chunk].is_waited_for;
}

// Whether the file now ends inside the chunk, and the read came as far as that. Otherwise what is
// missing is no file's end, and nothing may be shown in its place.
bool Pager::ends_there(const ServedFile& served, ChunkId chunk, uint64_t length_bytes) const {
  struct stat facts;
  if (length_bytes == 0 || kernel::fstat(served.file.fd(), &facts) != 0) return false;
  return static_cast<uint64_t>(facts.st_size) == served.offset_of(chunk) + length_bytes;
}

// Whether the file may have other bytes than at the last look. Nobody who maps the file from now on
// is shown what was read of it before.
bool Pager::look_at(ServedFile& served) {
  const auto now = io::identity_of(served.file.fd());
  if (!now || now->looks_like(served.seen)) return false;
  const bool is_stale = served.seen.may_have_other_bytes(*now);
  served.is_written = served.is_written || served.seen.was_written_until(*now);
  served.has_stale_chunks = served.has_stale_chunks || is_stale;
  served.seen = *now;
  served.has_changed = true;
  return is_stale;
}

// Chunks that were read before a change go, when the file has been left alone for a moment: times
// in ticks may not tell the last change from the one before it.
void Pager::look_at_files() {
  files_seen_ns_ = now_ns_;
  for (const auto& served : files_) {
    const bool is_changing = look_at(*served);
    tell_change(*served);
    if (is_changing || !served->has_stale_chunks) continue;
    served->has_stale_chunks = false;
    drop_stale_chunks(*served);
  }
}

// One line, however often it is changed.
void Pager::tell_change(ServedFile& served) {
  if (!served.has_stale_chunks || std::exchange(served.is_change_told, true)) return;
  notice(served.name +
         (served.is_written ? ": was changed while it was in use"
                            : ": its name, rights or times were changed while it was in use") +
         ". What is mapped from now on is read anew; older mappings show the new bytes as they are "
         "read again, as mmap's do. To keep the two apart, write a new file and rename it over the "
         "old one");
}

// What the kernel holds, or somebody waits for, stays.
void Pager::drop_stale_chunks(const ServedFile& served) {
  for (ChunkId chunk = served.first_chunk; chunk < served.first_chunk + served.chunks; ++chunk) {
    Waiting& waiting = waiting_[chunk];
    const ChunkState state = table_.state(chunk);
    if (state == ChunkState::reading) waiting.is_stale = !waiting.is_read_again;
    if (state == ChunkState::ready || state == ChunkState::mapped) evict(Run{chunk, 1});
  }
  tell_order();
}

// A read that a change of the file overtook may have brought bytes of before and after it.
bool Pager::reads_again(ChunkId chunk) {
  Waiting& waiting = waiting_[chunk];
  waiting.is_read_again = std::exchange(waiting.is_stale, false) && !waiting.is_doomed;
  if (waiting.is_read_again) start_reader({chunk, 1});
  return waiting.is_read_again;
}

// Never zeros: whoever touches the chunk gets SIGBUS, now and later.
void Pager::fail_chunk(ChunkId chunk, const char* what, int error_number) {
  const ServedFile& served = owner(chunk);
  report_failure(served, served.offset_of(chunk), served.offset_of(chunk) + served.bytes_of(chunk),
                 what, error_number);
  if (table_.state(chunk) == ChunkState::mapped) table_.hold(chunk);
  give_back_memory(chunk);
  // First of all who waits with the process's memory locked, or nothing could be sealed.
  if (shares_memory()) served.memory->fail_chunk(served.offset_of(chunk));
  table_.fail(chunk);
  seal_from(chunk, 0);
  stop_waiting(chunk);
}

void Pager::report_failure(const ServedFile& served, uint64_t begin_bytes, uint64_t end_bytes,
                           const char* what, int error_number) {
  char text[512];
  std::snprintf(text, sizeof text,
                "%s: %s, bytes %llu to %llu: %s; an engine that touches them gets SIGBUS",
                served.name.c_str(), what, static_cast<unsigned long long>(begin_bytes),
                static_cast<unsigned long long>(end_bytes), std::strerror(error_number));
  report_error(text);
  add(telemetry_.read_errors, 1);
}

// Seals a chunk from its page `first` on, in every region, and wakes who waits there.
void Pager::seal_from(ChunkId chunk, uint32_t first) {
  const uint32_t count = static_cast<uint32_t>(chunk_bytes_ / os_page_bytes) - first;
  owner(chunk).for_each_view(chunk, [&](Region& region, uint32_t index) {
    Region::Notes& notes = region.notes(index);
    const std::byte* const from = region.chunk_address(index) + uint64_t{first} * os_page_bytes;
    region.for_each_live_run(index, [&](std::byte* address, uint64_t length_bytes) {
      std::byte* const end = address + length_bytes;
      if (end <= from) return;
      if (address < from) address += from - address;
      seal(region, address, static_cast<uint64_t>(end - address));
    });
    if (region.drop_sealed_pages(index, first, count))
      notes.is_placed = notes.is_waited_for = false;
  });
}

// Pages that the engine wrote are its own: they stay.
void Pager::seal(const Region& region, std::byte* address, uint64_t length_bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  // A guest wakes its threads itself, when it has sealed them.
  if (!region.space().is_own()) return region.space().line().seal(begin, length_bytes);
  if (shares_memory()) return seal_unwritten(region, begin, begin + length_bytes, *page_map_);
  Region::seal(address, length_bytes);
  region.space().uffd().wake(address, length_bytes);
}

}  // namespace weightpager
