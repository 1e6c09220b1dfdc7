#include "pager/loop/file_reads.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"
#include "pager/io/open_reader.h"
#include "pager/telemetry/probes.h"

namespace weightpager {

namespace probes = telemetry::probes;
using policy::ChunkId;
using telemetry::add;
using telemetry::Counter;
using telemetry::EventKind;
using window::ChunkState;
using window::Run;

namespace {

// What a read is called: its first chunk, and how many there are.
constexpr uint32_t tag_count_shift = 32;

// A disk that works has answered by then.
constexpr uint64_t hanging_read_ns = 1'000'000'000;

// Whether the file now ends inside the chunk, and the read came as far as that. Otherwise what is
// missing is no file's end, and nothing may be shown in its place.
bool ends_there(const ServedFile& served, ChunkId chunk, uint64_t length_bytes) {
  struct stat facts;
  if (length_bytes == 0 || kernel::fstat(served.file.fd(), &facts) != 0) return false;
  return static_cast<uint64_t>(facts.st_size) == served.offset_of(chunk) + length_bytes;
}

// Whether what was read there is what the file has.
bool is_still_checked(ServedFile& served, uint32_t drive) {
  const ServedCopy* const copy = served.copy_on(drive);
  if (copy == nullptr) return true;
  const auto now = io::identity_of(copy->file.fd());
  return !copy->is_given_up && now && copy->checked.identity.holds_until(*now);
}

void give_up_copy(telemetry::Telemetry& telemetry, const ServedFile& served, ServedCopy& copy) {
  // Its original was changed, which is told there.
  if (std::exchange(copy.is_given_up, true)) return;
  add(telemetry.copies_given_up, 1);
  char text[1024];
  std::snprintf(text, sizeof text,
                "%s: was changed while it was in use; %s is read without it, also what was just "
                "read from it",
                copy.checked.path.c_str(), served.name.c_str());
  notice(text);
}

}  // namespace

FileReads::FileReads(const PagerOptions& options, const LoopParts& parts, ChunkMover& chunks)
    : options_(options),
      chunk_bytes_(options.chunk_bytes),
      read_chunks_max_(window::chunks_together(window::read_bytes_max, chunk_bytes_)),
      show_chunks_max_(window::chunks_together(window::move_bytes_max, chunk_bytes_)),
      parts_(parts),
      chunks_(chunks) {}

Status FileReads::open(uint32_t reads_ahead_max, int watched_fd) {
  reads_max_ = reads_ahead_max + policy::demand_reads_max;
  io::ReaderOptions reader_options;
  reader_options.watched_fd = watched_fd;
  // And one that is put together; should all fail, their chunks are read again one by one.
  reader_options.reads_max = (reads_max_ + 1) * read_chunks_max_;
  reader_options.read_bytes_max =
      static_cast<uint32_t>(read_chunks_max_ * chunk_bytes_ + BounceBuffers::margin_bytes);
  reader_options.device_read_bytes = options_.device.read_bytes;
  reader_options.reads_are_copies = options_.device.reads_are_copies;
  auto reader = options_.open_reader ? options_.open_reader(reader_options)
                                     : io::open_best_reader(reader_options);
  if (!reader) return forward_error(std::move(reader));
  reader_ = std::move(*reader);
  for (auto* chunks : {&zeros_, &zeros_taken_, &to_bounce_}) chunks->reserve(reads_max_);
  return {};
}

// ---- Start ----

// What lies behind the chunks that are to be read already goes with them.
void FileReads::start(ChunkId chunk) {
  parts_.table.start_read(chunk);
  ServedFile& served = parts_.files.owner(chunk);
  const bool gets_memory =
      parts_.memory.backing().prepare_slot(served, chunk, parts_.memory.note_chunks_in_use());
  const bool is_zeros =
      served.is_spilled() && served.spilled->home(chunk - served.first_chunk) == spill::Home::zeros;
  if (is_zeros && gets_memory && parts_.workers.has_room()) {
    ContentWork zeroing{
        .chunk = chunk, .bytes = bytes_of(chunk), .length_bytes = chunk_bytes_, .zeroes = true};
    const bool is_started = parts_.workers.start(zeroing);
    WP_ASSERT(is_started);
    return;
  }
  if (is_zeros) return zeros_.push_back(chunk);
  if (!goes_along(to_start_, chunk, read_chunks_max_)) {
    hand_over();
    to_start_ = {chunk, 0};
  }
  ++to_start_.count;
  notes_[chunk].gets_memory = gets_memory;
}

// Whether the chunk lies behind the last one of the run, in its file and in memory, and the run may
// still become longer.
bool FileReads::goes_along(const Run& run, ChunkId chunk, uint32_t count_max) const {
  return window::comes_next(run, chunk, count_max) &&
         &parts_.files.owner(chunk) == &parts_.files.owner(run.first) &&
         bytes_of(chunk) == bytes_of(run.first) + run.count * chunk_bytes_ &&
         lies_behind(chunk - 1, chunk);
}

// Whether the chunk lies behind the one before it on the disk, too, and both can be read into their
// slots. A chunk that has come since may be at home elsewhere by now: only what is read counts.
bool FileReads::lies_behind(ChunkId before, ChunkId chunk) const {
  const ServedFile& served = parts_.files.owner(chunk);
  if (!served.is_spilled() || parts_.table.state(chunk) != ChunkState::reading) return true;
  const ReadPlace first = home_of(before);
  const ReadPlace second = home_of(chunk);
  return first.is_aligned() && second.fd == first.fd &&
         second.offset_bytes == first.offset_bytes + chunk_bytes_;
}

ReadPlace FileReads::home_of(ChunkId chunk) const {
  const ServedFile& served = parts_.files.owner(chunk);
  return parts_.spills.home_of(*served.spilled, chunk - served.first_chunk);
}

std::byte* FileReads::bytes_of(ChunkId chunk) const {
  return parts_.memory.backing().bytes_of(parts_.files.owner(chunk), chunk);
}

void FileReads::hand_over() {
  if (to_start_.count > 0) start_reader(to_start_);
  to_start_.count = 0;
}

// The run's chunks lie side by side at home.
void FileReads::start_at_home(const Run& run, const ReadPlace& home) {
  if (!home.is_aligned()) return start_bounced(run.first, home);
  reader_->start({.tag = uint64_t{run.count} << tag_count_shift | run.first,
                  .fd = home.fd,
                  .offset_bytes = home.offset_bytes,
                  .length_bytes = static_cast<uint32_t>(run.count * chunk_bytes_),
                  .buffer = bytes_of(run.first),
                  .gets_memory = notes_[run.first].gets_memory});
}

// A direct read begins and ends where the disk's sectors do, so it goes into memory that has room
// for a little more.
void FileReads::start_bounced(ChunkId chunk, const ReadPlace& home) {
  std::byte* const buffer = bounces_.take();
  if (buffer == nullptr) return to_bounce_.push_back(chunk);
  const uint64_t begin = round_down(home.offset_bytes, home.alignment_bytes);
  const uint64_t end = round_up(home.offset_bytes + chunk_bytes_, home.alignment_bytes);
  notes_[chunk].bounced = buffer + (home.offset_bytes - begin);
  reader_->start({.tag = uint64_t{1} << tag_count_shift | chunk,
                  .fd = home.fd,
                  .offset_bytes = begin,
                  .length_bytes = static_cast<uint32_t>(end - begin),
                  .buffer = buffer});
}

// Whether a worker has the chunk now. Bytes that came elsewhere are copied to the chunk's slot;
// what is not known by its hash yet is hashed before anybody can write to it.
bool FileReads::start_work(ChunkId chunk, Arrival& arrival) {
  const std::byte* const bounced = notes_[chunk].bounced;
  if (bounced != nullptr) {
    const uint64_t before_bytes = bounces_.offset_of(bounced);
    arrival.bytes -= std::min(arrival.bytes, before_bytes);
  }
  arrival.bytes = std::min(arrival.bytes, chunk_bytes_);
  const ServedFile& served = parts_.files.owner(chunk);
  if (!served.is_spilled()) return false;
  const bool is_of_use =
      arrival.error_number == 0 && arrival.bytes == chunk_bytes_ && !notes_[chunk].is_doomed;
  const bool hashes = is_of_use && !served.spilled->has_hash(chunk - served.first_chunk);
  const bool has_work = is_of_use && (bounced != nullptr || hashes);
  ContentWork work{.chunk = chunk,
                   .bytes = bytes_of(chunk),
                   .length_bytes = chunk_bytes_,
                   .source = bounced,
                   .copied_bytes = chunk_bytes_,
                   .hashes = hashes};
  if (has_work && parts_.workers.start(work)) return true;
  if (hashes) arrival.hash = work.hash;
  give_bounce(chunk);
  return false;
}

// The buffer goes to the next chunk that waits for one.
void FileReads::give_bounce(ChunkId chunk) {
  const std::byte* const bounced = std::exchange(notes_[chunk].bounced, nullptr);
  if (bounced == nullptr) return;
  bounces_.give(bounced);
  while (!to_bounce_.empty()) {
    const ChunkId next = to_bounce_.front();
    to_bounce_.erase(to_bounce_.begin());
    // It may be at home elsewhere by now.
    if (take_doomed(next)) continue;
    return start_bounced(next, home_of(next));
  }
}

// From a drive that was not asked for it before.
void FileReads::start_reader(const Run& run, io::DriveSet asked) {
  ServedFile& served = parts_.files.owner(run.first);
  const uint64_t length_bytes = run.count * chunk_bytes_;
  const uint64_t now_ns = telemetry::monotonic_ns();
  const uint32_t drive = drives_.choose(to_ask(served, asked), length_bytes, now_ns);
  drives_.begin(drive, length_bytes, now_ns);
  for (uint32_t i = 0; i < run.count; ++i) notes_[run.first + i].drive = drive;
  notes_[run.first].asked = asked;
  notes_[run.first].began_ns = now_ns;
  probes::read_begin(run.first, run.count, served.offset_of(run.first), length_bytes);
  parts_.recorder.note(EventKind::read, run.first, run.count);
  if (served.is_spilled()) return start_at_home(run, home_of(run.first));
  reader_->start({.tag = uint64_t{run.count} << tag_count_shift | run.first,
                  .fd = served.file_on(drive).fd(),
                  .offset_bytes = served.offset_of(run.first),
                  .length_bytes = static_cast<uint32_t>(length_bytes),
                  .buffer = bytes_of(run.first),
                  .gets_memory = notes_[run.first].gets_memory});
}

// Drives that have the file and were not asked yet; those that have failed only if no others are
// left.
io::DriveSet FileReads::to_ask(const ServedFile& served, io::DriveSet asked) const {
  const io::DriveSet drives = served.drives() & ~asked;
  const io::DriveSet sound = drives & ~failing_drives_;
  return sound != 0 ? sound : drives;
}

// ---- Take ----

std::span<const io::Completion> FileReads::take_some(std::span<const io::Completion> finished,
                                                     uint64_t now_ns) {
  size_t count = 0;
  for (uint64_t bytes = 0; count < finished.size() && bytes < window::move_bytes_max; ++count) {
    bytes += (finished[count].tag >> tag_count_shift) * chunk_bytes_;
  }
  take(finished.first(count), now_ns);
  return finished.subspan(count);
}

void FileReads::take(std::span<const io::Completion> finished, uint64_t now_ns) {
  Run wanted;
  for (io::Completion completion : finished) {
    const Run read{static_cast<ChunkId>(completion.tag),
                   static_cast<uint32_t>(completion.tag >> tag_count_shift)};
    probes::read_end(read.first, read.count, completion.length_bytes, completion.error_number);
    account_read(read, completion.length_bytes, now_ns);
    parts_.recorder.note(EventKind::arrive, read.first, read.count);
    look_at(parts_.files.owner(read.first));
    if (reads_elsewhere(read, completion)) continue;
    // An error stays where it is: the others' bytes may be fine.
    if (completion.error_number != 0 && read.count > 1) {
      for (uint32_t i = 0; i < read.count; ++i) {
        if (!take_doomed(read.first + i)) start_reader({read.first + i, 1});
      }
      continue;
    }
    for (uint32_t i = 0; i < read.count; ++i) {
      const uint64_t begin_bytes = i * chunk_bytes_;
      Arrival arrival{
          .error_number = completion.error_number,
          .bytes = std::max<uint64_t>(completion.length_bytes, begin_bytes) - begin_bytes};
      if (!start_work(read.first + i, arrival)) take_arrival(read.first + i, arrival, wanted);
    }
  }
  chunks_.show(wanted);
}

void FileReads::take_worked(std::span<const ContentWork> done) {
  Run wanted;
  for (const ContentWork& work : done) {
    if (work.is_leaving) continue;
    if (work.zeroes) {
      take_zeroed(work.chunk);
      continue;
    }
    give_bounce(work.chunk);
    Arrival arrival{.bytes = chunk_bytes_};
    if (work.hashes) arrival.hash = work.hash;
    take_arrival(work.chunk, arrival, wanted);
  }
  chunks_.show(wanted);
}

// `wanted` are chunks that lie side by side, and are to be shown.
void FileReads::take_arrival(ChunkId chunk, const Arrival& arrival, Run& wanted) {
  if (reads_again(chunk) || !take_chunk(chunk, arrival)) return;
  if (!goes_along(wanted, chunk, show_chunks_max_)) {
    chunks_.show(wanted);
    wanted = {chunk, 0};
  }
  ++wanted.count;
}

void FileReads::account_read(const Run& read, uint64_t arrived_bytes, uint64_t now_ns) {
  const Notes& notes = notes_[read.first];
  drives_.end(notes.drive, read.count * chunk_bytes_, notes.began_ns, now_ns);
  add(parts_.telemetry.read_bytes, arrived_bytes);
  if (Counter* const of_mirror = telemetry::mirror_read_bytes(parts_.telemetry, notes.drive))
    add(*of_mirror, arrived_bytes);
  parts_.telemetry.read_latency_ns.add(now_ns - std::min(now_ns, notes.began_ns));
}

// Whether the chunks are read once more: a chunk that the kernel had no memory for, when there is
// some; and what a drive did not bring, or brought from a copy that is not what it was, from
// another drive. Where no other drive is left, such a copy's bytes are an error.
bool FileReads::reads_elsewhere(const Run& read, io::Completion& outcome) {
  ServedFile& served = parts_.files.owner(read.first);
  Notes& notes = notes_[read.first];
  const bool lacks_memory = outcome.error_number == ENOMEM || outcome.error_number == EFAULT;
  const bool is_for_one = read.count == 1 && !notes.is_doomed && notes.bounced == nullptr;
  const bool can_ask = is_for_one && to_ask(served, notes.asked) != 0;
  if (lacks_memory && can_ask && std::exchange(notes.gets_memory, false)) {
    parts_.memory.backing().get_memory(served, read.first);
    start_reader(read, notes.asked);
    return true;
  }
  if (served.copies.empty() || (notes.is_doomed && read.count == 1)) return false;
  const uint64_t begin_bytes = served.offset_of(read.first);
  const uint64_t end_bytes = std::min(begin_bytes + read.count * chunk_bytes_, served.size_bytes);
  const bool is_changed = !is_still_checked(served, notes.drive);
  const bool is_whole =
      outcome.error_number == 0 && begin_bytes + outcome.length_bytes >= end_bytes;
  if (is_whole && !is_changed) return false;
  const io::DriveSet asked = notes.asked | io::drive_bit(notes.drive);
  const io::DriveSet others = to_ask(served, asked);
  if (is_changed) {
    give_up_copy(parts_.telemetry, served, *served.copy_on(notes.drive));
  } else if (others != 0) {
    give_up_drive(read, outcome.error_number != 0 ? outcome.error_number : EIO);
  }
  if (others != 0) {
    start_reader(read, asked);
  } else if (notes.drive != 0 && outcome.error_number == 0) {
    outcome = {.tag = outcome.tag, .error_number = EIO};
  }
  return others != 0;
}

// The drive is asked no more for what another one has. One line, however many reads fail with it.
void FileReads::give_up_drive(const Run& read, int error_number) {
  const uint32_t drive = notes_[read.first].drive;
  if ((failing_drives_ & io::drive_bit(drive)) != 0) return;
  failing_drives_ |= io::drive_bit(drive);
  add(parts_.telemetry.copies_given_up, 1);
  ServedFile& served = parts_.files.owner(read.first);
  const uint64_t begin_bytes = served.offset_of(read.first);
  char text[1024];
  std::snprintf(text, sizeof text,
                "%s: reading bytes %" PRIu64 " to %" PRIu64
                " failed: %s (errno %d); they are read from %s, and nothing more from this %s as "
                "long as another drive has it",
                served.name_on(drive).c_str(), begin_bytes, begin_bytes + read.count * chunk_bytes_,
                std::strerror(error_number), error_number, drive == 0 ? "a copy" : "another drive",
                drive == 0 ? "drive" : "mirror");
  notice(text);
}

// reading → ready. Returns whether it is to be shown.
bool FileReads::take_chunk(ChunkId chunk, const Arrival& arrival) {
  ServedFile& served = parts_.files.owner(chunk);
  if (take_doomed(chunk)) return false;
  if (served.is_spilled()) return take_spilled(served, chunk, arrival);
  if (arrival.error_number != 0) {
    chunks_.fail(chunk, "reading the model file failed", arrival.error_number);
    return false;
  }
  const uint64_t arrived_bytes = arrival.bytes;
  const bool is_short = arrived_bytes < served.bytes_of(chunk);
  if (is_short && !take_short_chunk(served, chunk, arrived_bytes)) return false;
  // The memory held another chunk before: behind the file's end mmap shows zeros.
  if (arrived_bytes < chunk_bytes_) {
    std::memset(bytes_of(chunk) + arrived_bytes, 0, chunk_bytes_ - arrived_bytes);
  }
  const io::ModelFile& file = served.file_on(notes_[chunk].drive);
  if (!file.is_direct()) {
    kernel::fadvise(file.fd(), static_cast<off_t>(served.offset_of(chunk)),
                    static_cast<off_t>(chunk_bytes_), POSIX_FADV_DONTNEED);
  }
  return make_ready(served, chunk);
}

// reading → ready. Returns whether the chunk is to be shown.
bool FileReads::make_ready(const ServedFile& served, ChunkId chunk) {
  parts_.memory.backing().finish_read(served, chunk);
  parts_.table.finish_read(chunk);
  const bool wants_show = parts_.policy.policy().on_ready(chunk) && !parts_.recorder.is_recording();
  return wants_show || parts_.waiters.are_at(chunk);
}

// reading → absent, of a chunk whose bytes nobody needs. Who touches spilled memory that got other
// content meanwhile needs that.
bool FileReads::take_doomed(ChunkId chunk) {
  if (!std::exchange(notes_[chunk].is_doomed, false)) return false;
  parts_.table.finish_read(chunk);
  parts_.memory.backing().release(parts_.files.owner(chunk), chunk);
  if (parts_.waiters.are_at(chunk)) parts_.policy.policy().on_touch(chunk, policy::anywhere);
  parts_.files.drop_unused_files();
  parts_.policy.unpin_unserved();
  return true;
}

// ---- Spilled memory ----

void FileReads::take_zeros() {
  zeros_taken_.clear();
  zeros_taken_.swap(zeros_);
  for (const ChunkId chunk : zeros_taken_) {
    if (!notes_[chunk].is_doomed) std::memset(bytes_of(chunk), 0, chunk_bytes_);
    take_zeroed(chunk);
  }
}

void FileReads::take_zeroed(ChunkId chunk) {
  if (take_doomed(chunk)) return;
  ServedFile& served = parts_.files.owner(chunk);
  if (note_use(served, chunk)) parts_.policy.policy().on_growth(chunk);
  if (make_ready(served, chunk)) chunks_.show(chunk);
}

// Returns whether the engine has not used the chunk before.
bool FileReads::note_use(ServedFile& served, ChunkId chunk) {
  const uint32_t index = chunk - served.first_chunk;
  if (served.spilled->is_in_use(index)) return false;
  served.spilled->note_use(index);
  parts_.policy.note_order_grows();
  return true;
}

// What was read from a file has to be what the engine has read there.
bool FileReads::take_spilled(ServedFile& served, ChunkId chunk, const Arrival& arrival) {
  spill::SpilledChunks& content = *served.spilled;
  const uint32_t index = chunk - served.first_chunk;
  const bool is_of_file = content.home(index) == spill::Home::file;
  const bool is_unchanged = parts_.spills.is_home_unchanged(content, index);
  const bool is_whole = arrival.bytes == chunk_bytes_;
  if (arrival.error_number != 0 || !is_whole || !is_unchanged) {
    char text[1024];
    parts_.spills.describe_loss(content, index, text);
    chunks_.fail(chunk, text, arrival.error_number != 0 ? arrival.error_number : EIO);
    return false;
  }
  const ReadPlace home = home_of(chunk);
  if (!home.is_direct) {
    kernel::fadvise(home.fd, static_cast<off_t>(home.offset_bytes),
                    static_cast<off_t>(chunk_bytes_), POSIX_FADV_DONTNEED);
  }
  if (arrival.hash) content.set_hash(index, *arrival.hash);
  if (!is_of_file) add(parts_.telemetry.spill_read_bytes, chunk_bytes_);
  content.note_return(index);
  note_use(served, chunk);
  return make_ready(served, chunk);
}

// The file ends within the chunk now: its bytes up to there are good, pages behind are sealed.
// False: the chunk has failed.
bool FileReads::take_short_chunk(ServedFile& served, ChunkId chunk, uint64_t arrived_bytes) {
  const char* const what = "the model file became shorter while it was in use";
  if (!ends_there(served, chunk, arrived_bytes)) {
    chunks_.fail(chunk, what, EIO);
    return false;
  }
  report_failure(parts_.telemetry, served, served.offset_of(chunk) + arrived_bytes,
                 served.offset_of(chunk) + served.bytes_of(chunk), what, EIO);
  chunks_.seal_from(chunk,
                    static_cast<uint32_t>(round_up(arrived_bytes, os_page_bytes) / os_page_bytes));
  return true;
}

// Once: the disk may be a slow one.
void FileReads::tell_of_hanging_read(uint64_t now_ns) {
  if (has_told_of_hanging_read_) return;
  for (ChunkId chunk = 0; chunk < parts_.table.chunks(); ++chunk) {
    const bool is_hanging =
        parts_.waiters.are_at(chunk) && parts_.table.state(chunk) == ChunkState::reading &&
        now_ns - std::min(now_ns, parts_.waiters.since_ns(chunk)) > hanging_read_ns;
    if (!is_hanging) continue;
    has_told_of_hanging_read_ = true;
    ServedFile& served = parts_.files.owner(chunk);
    char text[512];
    const uint64_t begin_bytes = served.offset_of(chunk);
    std::snprintf(text, sizeof text,
                  "%s: the engine has waited for bytes %" PRIu64 " to %" PRIu64
                  " for a second: the disk is slow or hangs (see `dmesg`), or a program holds the "
                  "file's lock: one that writes into the file out of these weights, by other calls "
                  "than libc's, waits for itself",
                  served.name_on(notes_[chunk].drive).c_str(), begin_bytes,
                  begin_bytes + served.bytes_of(chunk));
    return report_error(text);
  }
}

// ---- Files that are changed ----

// Times in ticks may not tell the last change from the one before it, so chunks go only when the
// file looks the same at two looks.
void FileReads::look_at_files(uint64_t now_ns) {
  if (now_ns - files_seen_ns_ < look_interval_ns) return;
  files_seen_ns_ = now_ns;
  for (const auto& served : parts_.files.files()) {
    const bool is_changing = look_at(*served);
    tell_change(*served);
    if (is_changing || !served->has_stale_chunks) continue;
    served->has_stale_chunks = false;
    drop_stale_chunks(*served);
  }
}

// What the kernel holds, or somebody waits for, stays.
void FileReads::drop_stale_chunks(const ServedFile& served) {
  for (ChunkId chunk = served.first_chunk; chunk < served.first_chunk + served.chunks; ++chunk) {
    Notes& notes = notes_[chunk];
    const ChunkState state = parts_.table.state(chunk);
    if (state == ChunkState::reading) notes.is_stale = !notes.is_read_again;
    if (state == ChunkState::ready || state == ChunkState::mapped) chunks_.evict(Run{chunk, 1});
  }
  parts_.policy.tell_order();
}

// A read that a change of the file overtook may have brought bytes of before and after it.
bool FileReads::reads_again(ChunkId chunk) {
  Notes& notes = notes_[chunk];
  notes.is_read_again = std::exchange(notes.is_stale, false) && !notes.is_doomed;
  if (notes.is_read_again) start_reader({chunk, 1});
  return notes.is_read_again;
}

}  // namespace weightpager
