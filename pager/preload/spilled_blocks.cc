#include "pager/preload/spilled_blocks.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <utility>

#include "pager/base/log.h"
#include "pager/base/mutex.h"
#include "pager/base/own_limits.h"
#include "pager/base/span.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"
#include "pager/preload/error_kept.h"
#include "pager/preload/large_blocks.h"
#include "pager/preload/short_lived_blocks.h"
#include "pager/preload/shown_blocks.h"
#include "pager/preload/spilled_memory.h"

namespace weightpager::preload {

std::atomic<size_t> spilled_bytes_min{SIZE_MAX};
std::atomic<uintptr_t> spilled_begin{UINTPTR_MAX};
std::atomic<uintptr_t> spilled_end{0};

namespace {

constexpr size_t spilled_bytes_min_otherwise = 4 * MiB;
// While a process's large blocks together are no more than a part of the window, between these two
// bounds, all of them are plain. Their notes have the mark, beside the time. As much as the lower
// bound may be a program's own, however small the window is: node has some 5 to 9 MiB before it
// loads a model.
constexpr size_t first_part_of_window = 16;
constexpr size_t first_bytes_min = 10 * MiB;
constexpr size_t first_bytes_max = 64 * MiB;
constexpr uint64_t first_mark = uint64_t{1} << 63;
// Where only readers are served and nothing was read yet, no more than this part of the window is
// spilled.
constexpr uint64_t unread_part_of_window = 2;
// Arenas are few and large, because each is a region of the pager's.
constexpr size_t arena_bytes_min = GiB;
// More than any address space has.
constexpr size_t block_bytes_max = size_t{1} << 47;

// Whose blocks are served. Where only readers are served, the process goes through the last three
// in this order.
enum class Served {
  of_all,
  of_readers_to_come,  // the process has opened no model yet
  of_readers,
  of_nobody,
};

// Never destroyed: engine threads give blocks back until the process is gone.
struct Spilling {
  LargeBlocks blocks{spilled_chunk_bytes};
  LargeBlocks plain{spilled_chunk_bytes};
  ShownBlocks shown;  // of those that the pager serves
  Span plain_memory;  // empty if there is none
  Mutex growing;      // held while an arena is added; taken before all others
  uint64_t arenas_bytes WP_GUARDED_BY(growing) = 0;
  bool has_told_of_no_room WP_GUARDED_BY(growing) = false;
  Mutex lives_mutex;
  ShortLivedBlocks lives WP_GUARDED_BY(lives_mutex);
  size_t first_bytes WP_GUARDED_BY(lives_mutex) = 0;
  size_t first_bytes_max WP_GUARDED_BY(lives_mutex) = 0;  // 0 once a block was spilled
  // In a child process the pager serves nothing.
  std::atomic<bool> is_child{false};
  std::atomic<Served> served{Served::of_all};
  size_t bytes_min = 0;  // what `spilled_bytes_min` is while blocks are served
  std::atomic<bool> has_spilled{false};
  std::atomic<bool> has_given{false};
  std::atomic<uint64_t> held_bytes{0};  // of spilled blocks
  uint64_t window_bytes = UINT64_MAX;
};
Spilling* spilling = nullptr;

uintptr_t number_of(const void* address) { return reinterpret_cast<uintptr_t>(address); }

// To some milliseconds, which is enough for lives.
uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * second_ns + static_cast<uint64_t>(now.tv_nsec);
}

void forget(const Span& chunks) {
  if (chunks.is_empty()) return;
  forget_spilled_memory(reinterpret_cast<std::byte*>(chunks.begin), chunks.length_bytes());
}

void clear_part(uintptr_t from, uintptr_t to) {
  if (from < to) std::memset(reinterpret_cast<void*>(from), 0, to - from);
}

// What no block ever had is zero already. Whole chunks are forgotten, because otherwise those that
// are absent would be brought back to be overwritten.
void clear_spilled(const LargeBlocks::Block& block) {
  const uintptr_t begin = number_of(block.begin);
  const uintptr_t used_end = begin + block.used_bytes;
  const uintptr_t end = begin + block.reserved_bytes;
  if (used_end == begin) return;
  const Span chunks = whole_chunks({begin, std::min(round_up(used_end, spilled_chunk_bytes), end)});
  forget(chunks);
  clear_part(begin, std::min(chunks.begin, used_end));
  clear_part(std::max(chunks.end, begin), used_end);
}

void widen_bounds(const Span& memory) {
  spilled_begin.store(std::min(spilled_begin.load(), memory.begin));
  spilled_end.store(std::max(spilled_end.load(), memory.end));
}

// ---- What others see of blocks ----

// So many blocks more lie in spilled memory, of so many bytes more.
void account(int64_t blocks, int64_t length_bytes) {
  spilling->held_bytes.fetch_add(static_cast<uint64_t>(length_bytes));  // modulo 2^64
  count_blocks(blocks, length_bytes);
}

void show_block(const LargeBlocks::Block& block) {
  spilling->shown.add(number_of(block.begin), block.reserved_bytes);
  account(1, static_cast<int64_t>(block.reserved_bytes));
}

void hide_block(const LargeBlocks::Block& block) {
  spilling->shown.remove(number_of(block.begin));
  account(-1, -static_cast<int64_t>(block.reserved_bytes));
}

bool is_plain(const void* address) {
  const Span& memory = spilling->plain_memory;
  return number_of(address) >= memory.begin && number_of(address) < memory.end;
}

/// The blocks to which an address belongs.
LargeBlocks& blocks_of(const void* address) {
  return is_plain(address) ? spilling->plain : spilling->blocks;
}

bool add_arena(uint64_t length_bytes) WP_REQUIRES(spilling->growing) {
  const PlainMemory plain;
  std::byte* const begin = add_spilled_memory(length_bytes);
  if (begin == nullptr) return false;
  // Whoever gets a block there must find the bounds wide enough.
  widen_bounds({number_of(begin), number_of(begin) + length_bytes});
  if (!spilling->blocks.add_arena(begin, begin + length_bytes)) return false;
  spilling->arenas_bytes += length_bytes;
  spilling->has_spilled.store(true);
  return true;
}

std::optional<LargeBlocks::Block> take_from_more_memory(size_t bytes, size_t alignment,
                                                        uint64_t now) {
  const MutexLock lock(spilling->growing);
  auto block = spilling->blocks.take(bytes, alignment, now);
  if (block) return block;  // another thread has added an arena meanwhile
  const size_t needed_bytes = spilling->blocks.arena_bytes_for(bytes, alignment);
  // Each is as long as all before it, so that there are few.
  const bool is_added =
      add_arena(std::max({needed_bytes, arena_bytes_min, spilling->arenas_bytes})) ||
      add_arena(needed_bytes);
  if (is_added) block = spilling->blocks.take(bytes, alignment, now);
  const bool is_wanted = spilling->served.load() != Served::of_nobody;
  if (!block && is_wanted && !spilling->has_told_of_no_room) {
    spilling->has_told_of_no_room = true;
    notice("no room for more spilled memory: " + format_size(bytes) +
           " and more stay in the engine's own memory, beyond the window");
  }
  return block;
}

std::optional<LargeBlocks::Block> take_first(size_t bytes, size_t alignment, uint64_t now)
    WP_REQUIRES(spilling->lives_mutex) {
  const bool has_room = bytes <= spilling->first_bytes_max &&
                        spilling->first_bytes <= spilling->first_bytes_max - bytes;
  const auto block =
      has_room ? spilling->plain.take(bytes, alignment, first_mark | now) : std::nullopt;
  if (block) {
    spilling->first_bytes += bytes;
  } else {
    spilling->first_bytes_max = 0;
  }
  return block;
}

// A block that the pager does not serve: one of the first, or one whose like does not live long.
std::optional<LargeBlocks::Block> take_plain(size_t bytes, size_t alignment, uint64_t now) {
  const MutexLock lock(spilling->lives_mutex);
  if (auto block = take_first(bytes, alignment, now)) return block;
  if (!spilling->lives.shall_be_plain(bytes, now)) return std::nullopt;
  const auto block = spilling->plain.take(bytes, alignment, now);
  if (block) spilling->lives.note_plain(number_of(block->begin), bytes, now);
  return block;
}

// Frees the memory of one of the first blocks, unless the next one like it will soon need it.
void end_first(const LargeBlocks::Block& block, uint64_t now) WP_REQUIRES(spilling->lives_mutex) {
  spilling->first_bytes -= block.asked_bytes;
  if (now - (block.note & ~first_mark) < ShortLivedBlocks::short_life_ns) return;
  kernel::madvise(block.begin, block.reserved_bytes, MADV_DONTNEED);
}

void give_plain(void* address) {
  const MutexLock lock(spilling->lives_mutex);
  const auto block = spilling->plain.find(address);
  if (!block) return;
  if ((block->note & first_mark) != 0) {
    end_first(*block, now_ns());
  } else {
    spilling->lives.note_plain_end(number_of(address), now_ns());
  }
  spilling->plain.give(address);
  if (!spilling->lives.is_idle() || spilling->first_bytes > 0) return;
  const Span& memory = spilling->plain_memory;
  kernel::madvise(reinterpret_cast<void*>(memory.begin), memory.length_bytes(), MADV_DONTNEED);
}

// Whether the block may be one that the engine reads its model into. An engine asks for a block,
// however long, and reads into it. One that asks for more and more has perhaps looked at a model's
// header only, and must not have to write to a disk what it computes.
bool may_be_of_reader(size_t bytes) {
  if (!is_spilling_for_readers() || has_any_lazily_read()) return true;
  const uint64_t held_bytes = spilling->held_bytes.load();
  return held_bytes == 0 || held_bytes + bytes <= spilling->window_bytes / unread_part_of_window;
}

void make_plain_memory() {
  const size_t length_bytes = ShortLivedBlocks::plain_bytes_max;
  void* const memory =
      kernel::mmap(nullptr, length_bytes + spilled_chunk_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  const uintptr_t begin = round_up(number_of(memory), spilled_chunk_bytes);
  auto* const first = reinterpret_cast<std::byte*>(begin);
  if (!spilling->plain.add_arena(first, first + length_bytes)) return;
  spilling->plain_memory = {begin, begin + length_bytes};
  widen_bounds(spilling->plain_memory);
}

// While a thread forks, it holds all locks that the child needs. Libraries that were begun before
// this one may allocate in that time, in handlers of their own.
thread_local bool is_forking __attribute__((tls_model("initial-exec"))) = false;
thread_local bool took_plain_memory __attribute__((tls_model("initial-exec"))) = false;

// The child adds no arena, so it needs no `growing`, which is held for long. (Clang cannot know
// that after_fork() unlocks what before_fork() has locked.)
void before_fork() WP_UNCHECKED {
  keep_lazily_read_for_child();
  spilling->lives_mutex.lock();
  spilling->blocks.before_fork();
  spilling->plain.before_fork();
  took_plain_memory = std::exchange(takes_plain_memory, true);
  is_forking = true;
}

void after_fork() WP_UNCHECKED {
  is_forking = false;
  takes_plain_memory = took_plain_memory;
  spilling->plain.after_fork();
  spilling->blocks.after_fork();
  spilling->lives_mutex.unlock();
}

// The child has what its parent had. What it asks for from now on is libc's, unless the parent had
// opened no model yet: the child may.
void after_fork_in_child() {
  spilled_bytes_min.store(SIZE_MAX);
  spilling->is_child.store(spilling->served.load() != Served::of_readers_to_come);
  after_fork();
}

}  // namespace

void begin_spilling() {
  const char* const folder = std::getenv("WEIGHTPAGER_SPILL");
  if (folder == nullptr || *folder == 0) return;
  size_t bytes_min = spilled_bytes_min_otherwise;
  if (const char* const text = std::getenv("WEIGHTPAGER_SPILL_MIN"))
    bytes_min = std::strtoull(text, nullptr, 10);
  const char* const whose = std::getenv("WEIGHTPAGER_SPILL_FOR");
  const bool is_for_readers = whose != nullptr && std::strcmp(whose, "readers") == 0;
  // Arenas are reservations of addresses, which the engine may need elsewhere.
  if (is_for_readers && (is_limited(RLIMIT_AS) || is_limited(RLIMIT_DATA))) return;
  spilling = new Spilling;
  if (!is_for_readers) make_plain_memory();
  if (const char* const window = std::getenv("WEIGHTPAGER_WINDOW")) {
    const MutexLock lock(spilling->lives_mutex);
    spilling->window_bytes = std::strtoull(window, nullptr, 10);
    spilling->first_bytes_max = std::clamp<size_t>(spilling->window_bytes / first_part_of_window,
                                                   first_bytes_min, first_bytes_max);
  }
  pthread_atfork(before_fork, after_fork, after_fork_in_child);
  spilling->bytes_min = std::max<size_t>(bytes_min, os_page_bytes);
  if (is_for_readers) {
    spilling->served.store(Served::of_readers_to_come);
  } else {
    spilled_bytes_min.store(spilling->bytes_min);
  }
}

void begin_spilling_for_reader() {
  if (spilling == nullptr) return;
  Served to_come = Served::of_readers_to_come;
  if (!spilling->served.compare_exchange_strong(to_come, Served::of_readers)) return;
  make_plain_memory();
  spilled_bytes_min.store(spilling->bytes_min);
  // Another thread may have mapped a model meanwhile.
  if (spilling->served.load() == Served::of_nobody) spilled_bytes_min.store(SIZE_MAX);
}

bool end_spilling_for_readers() {
  if (spilling == nullptr) return true;
  if (!is_spilling_for_readers()) return false;
  spilling->served.store(Served::of_nobody);
  spilled_bytes_min.store(SIZE_MAX);
  return !spilling->has_spilled.load();
}

bool is_spilling_for_readers() {
  return spilling != nullptr && spilling->served.load() != Served::of_all;
}

bool has_given_blocks() { return spilling != nullptr && spilling->has_given.load(); }

void* take_large(size_t bytes, size_t alignment, bool must_be_zero) {
  if (bytes > block_bytes_max || alignment > block_bytes_max) return nullptr;
  const ErrorKept kept;
  const uint64_t now = now_ns();
  spilling->has_given.store(true, std::memory_order_relaxed);
  if (const auto block = take_plain(bytes, alignment, now)) {
    const uintptr_t begin = number_of(block->begin);
    if (must_be_zero) clear_part(begin, begin + block->used_bytes);
    return block->begin;
  }
  if (!may_be_of_reader(bytes)) return nullptr;
  auto block = spilling->blocks.take(bytes, alignment, now);
  if (!block) block = take_from_more_memory(bytes, alignment, now);
  if (!block) return nullptr;
  if (must_be_zero) clear_spilled(*block);
  show_block(*block);
  const MutexLock lock(spilling->lives_mutex);
  spilling->lives.note_spilled(bytes);
  return block->begin;
}

bool give_large(void* address) {
  if (is_forking) return true;  // the block stays taken: its locks are held
  const ErrorKept kept;
  const auto block = blocks_of(address).find(address);
  if (!block) return false;
  if (is_plain(address)) {
    give_plain(address);
    return true;
  }
  const uint64_t life_ns = now_ns() - block->note;
  // Short-lived blocks come back to the same place, so they stay in memory.
  const bool is_over = life_ns >= ShortLivedBlocks::short_life_ns;
  if (is_over && !spilling->is_child.load()) {
    const uintptr_t begin = number_of(block->begin);
    forget(whole_chunks({begin, begin + block->reserved_bytes}));
  }
  hide_block(*block);
  spilling->blocks.give(address);
  const MutexLock lock(spilling->lives_mutex);
  spilling->lives.note_spilled_end(block->asked_bytes, life_ns);
  return true;
}

size_t large_room_bytes(const void* address) {
  const auto block = blocks_of(address).find(address);
  return block ? block->reserved_bytes : 0;
}

size_t large_asked_bytes(const void* address) {
  const auto block = blocks_of(address).find(address);
  return block ? block->asked_bytes : 0;
}

// A short-lived block is known by its length.
bool resize_large(void* address, size_t bytes) {
  if (bytes > block_bytes_max || is_plain(address)) return false;
  const size_t before_bytes = large_room_bytes(address);
  if (!spilling->blocks.resize_in_place(address, bytes)) return false;
  const size_t after_bytes = round_up(bytes, os_page_bytes);
  spilling->shown.resize(number_of(address), after_bytes);
  account(0, static_cast<int64_t>(after_bytes) - static_cast<int64_t>(before_bytes));
  return true;
}

bool is_any_block_in(const void* chunk) { return spilling->blocks.is_chunk_in_use(chunk); }

size_t list_blocks(const Span& arena, std::span<Span> blocks) {
  const size_t count = spilling->shown.list(arena, blocks);
  for (Span& block : blocks.first(count)) {
    block = {block.begin - arena.begin, block.end - arena.begin};
  }
  return count;
}

bool is_in_spilled_block(const void* begin, size_t length_bytes) {
  return !spilling->is_child.load(std::memory_order_relaxed) &&
         spilling->blocks.is_in_one_block(begin, length_bytes);
}

}  // namespace weightpager::preload
