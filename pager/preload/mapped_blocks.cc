#include "pager/preload/mapped_blocks.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"
#include "pager/preload/session.h"
#include "pager/preload/session_state.h"
#include "pager/preload/spilling_state.h"
#include "pager/preload/unseen_memory.h"

namespace weightpager::preload {
namespace {

using Block = LargeBlocks::Block;
using Kind = LargeBlocks::Kind;
using Part = LargeBlocks::Part;

constexpr int all_rights = PROT_READ | PROT_WRITE;
constexpr int no_rights = 0;

// Longer mappings are reservations. 0: no mapping is served.
size_t mapping_bytes_max = 0;
bool has_other_allocator = false;
std::atomic<bool> has_told_of_other_allocator{false};
std::atomic<bool> has_told_of_withdrawal{false};

std::byte* pointer_to(uintptr_t number) { return reinterpret_cast<std::byte*>(number); }
uintptr_t number_at(const void* address) { return reinterpret_cast<uintptr_t>(address); }
uintptr_t chunk_of(uintptr_t address) { return round_down(address, spilled_chunk_bytes); }

/// Up to the end of the last page. Nothing if the kernel refuses such a range.
std::optional<Span> pages_in(const void* address, size_t length) {
  const uintptr_t begin = number_at(address);
  if (begin % os_page_bytes != 0 || length == 0 || length > UINTPTR_MAX - begin - os_page_bytes)
    return std::nullopt;
  return Span{begin, begin + round_up(length, os_page_bytes)};
}

int refuse_mapped(int error) {
  errno = error;
  return -1;
}

/// Calls `act(part)` for each part of the range, until it returns false.
template <typename Act>
bool for_each_mapped_part(const Span& range, Act act) {
  for (uintptr_t at = range.begin; at < range.end;) {
    const Part part = spilling->mapped.first_part(at, range.end);
    if (!act(part)) return false;
    at = part.end;
  }
  return true;
}

// ---- What others do with parts that are not served here ----

/// Whether session.h knows the part.
bool is_of_session(const Part& part) {
  return part.kind == Kind::outside &&
         touches_region(pointer_to(part.begin), part.end - part.begin);
}

int unmap_elsewhere(const Part& part) {
  void* const address = pointer_to(part.begin);
  const size_t length = part.end - part.begin;
  return is_of_session(part) ? unmap(address, length) : kernel::munmap(address, length);
}

int protect_elsewhere(const Part& part, int protection) {
  void* const address = pointer_to(part.begin);
  const size_t length = part.end - part.begin;
  return is_of_session(part) ? protect(address, length, protection)
                             : kernel::mprotect(address, length, protection);
}

// ---- Chunks ----

void tell_of_withdrawal(const char* what) {
  if (has_told_of_withdrawal.exchange(true)) return;
  notice(std::string("the engine has mapped large memory and ") + what +
         ": the parts in question stay in memory, beyond the window (told once)");
}

/// Whatever block has bytes on both sides of the address becomes two.
bool cut_block(uintptr_t address) {
  const Part part = spilling->mapped.first_part(address, address + os_page_bytes);
  if (part.kind != Kind::block || part.block.first() == address) return true;
  if (!spilling->mapped.cut(address)) return false;
  hide_block(part.block);
  show_block(*spilling->mapped.find(part.block.begin));
  show_block(*spilling->mapped.find(pointer_to(address)));
  return true;
}

/// All parts of one chunk have the same rights, since it is withdrawn before that changes.
int withheld_of_chunk(uintptr_t chunk) {
  int withheld = all_rights;
  for_each_mapped_part({chunk, chunk + spilled_chunk_bytes}, [&](const Part& part) {
    if (part.kind != Kind::block) return true;
    withheld = part.block.withheld;
    return false;
  });
  return withheld;
}

/// The pages of a withdrawn chunk, which are the kernel's by now, are as accessible as they were.
/// What was no block's is unmapped.
void restore_rights(const Part& part) {
  void* const address = pointer_to(part.begin);
  const size_t length = part.end - part.begin;
  if (part.kind == Kind::free) {
    kernel::munmap(address, length);
  } else if (part.block.withheld != 0) {
    kernel::mprotect(address, length, all_rights & ~part.block.withheld);
  }
}

bool withdraw_chunk(uintptr_t chunk) {
  const uintptr_t chunk_end = chunk + spilled_chunk_bytes;
  // Once the memory is withdrawn, its account must follow.
  if (!cut_block(chunk) || !cut_block(chunk_end) || !spilling->mapped.reserve_cuts(2)) return false;
  const int withheld = withheld_of_chunk(chunk);
  std::byte* const begin = pointer_to(chunk);
  // Who brings the chunk into memory has to be able to read it.
  if (withheld != 0 && !withhold_spilled_memory(begin, spilled_chunk_bytes, no_rights))
    return false;
  if (!withdraw_spilled_memory(begin)) {
    withhold_spilled_memory(begin, spilled_chunk_bytes, withheld);
    return false;
  }
  for_each_mapped_part({chunk, chunk_end}, [](const Part& part) {
    restore_rights(part);
    if (part.kind == Kind::block) hide_block(part.block);
    return true;
  });
  const bool is_noted = spilling->mapped.withdraw(chunk, chunk_end);
  WP_ASSERT(is_noted);
  return true;
}

/// All chunks that have a part of the range, but for those that are withdrawn.
bool withdraw_chunks(const Span& range, const char* what) {
  tell_of_withdrawal(what);
  for (uintptr_t chunk = chunk_of(range.begin); chunk < range.end; chunk += spilled_chunk_bytes) {
    const Part part = spilling->mapped.first_part(chunk, chunk + spilled_chunk_bytes);
    const bool is_served = part.kind == Kind::free || part.kind == Kind::block;
    if (is_served && !withdraw_chunk(chunk)) return false;
  }
  return true;
}

/// Those chunks of a part that have nothing of other blocks, or of the same outside of it.
Span own_chunks(uintptr_t begin, uintptr_t end) {
  uintptr_t first = chunk_of(begin);
  if (!spilling->mapped.has_chunk_only_in(first, begin, end)) first += spilled_chunk_bytes;
  uintptr_t last = round_up(end, spilled_chunk_bytes);
  if (last > first && !spilling->mapped.has_chunk_only_in(last - spilled_chunk_bytes, begin, end))
    last -= spilled_chunk_bytes;
  return {first, std::max(first, last)};
}

// ---- Unmap ----

/// Pages that share their chunk with mapped ones.
bool clear_pages(uintptr_t begin, uintptr_t end) {
  if (begin >= end) return true;
  if (withheld_of_chunk(chunk_of(begin)) == 0) {
    std::memset(pointer_to(begin), 0, end - begin);
    return true;
  }
  if (!withdraw_chunks({begin, end}, "unmapped a part of what it had protected")) return false;
  return kernel::munmap(pointer_to(begin), end - begin) == 0;
}

/// Chunks without pages that stay mapped: zeros that wait for the next mapping.
bool empty_chunks(const Span& chunks) {
  if (chunks.is_empty()) return true;
  std::byte* const begin = pointer_to(chunks.begin);
  if (!spilling->mapped.reserve_cuts(2) ||
      !withhold_spilled_memory(begin, chunks.length_bytes(), all_rights))
    return false;
  if (forget_or_wait(begin, chunks.length_bytes())) return true;
  // A device may go on writing to pages that it holds: nobody must ever get these chunks again.
  withhold_spilled_memory(begin, chunks.length_bytes(), no_rights);
  unmap_spilled_memory(begin, chunks.length_bytes());
  for_each_mapped_part(chunks, [](const Part& part) {
    if (part.kind == Kind::block) hide_block(part.block);
    return true;
  });
  const bool is_noted = spilling->mapped.withdraw(chunks.begin, chunks.end);
  WP_ASSERT(is_noted);
  return true;
}

/// Their bytes are needed no more. What cannot be forgotten now is kept.
void forget_if_can(const Span& chunks) {
  if (!chunks.is_empty()) forget_or_wait(pointer_to(chunks.begin), chunks.length_bytes());
}

/// A part of a block, or all of it.
bool unmap_part(const Part& part) {
  if (!cut_block(part.begin) || !cut_block(part.end)) return false;
  const Span chunks = own_chunks(part.begin, part.end);
  const uintptr_t front_end = std::min(chunks.begin, part.end);
  if (!clear_pages(part.begin, front_end)) return false;
  if (!clear_pages(std::max(chunks.end, front_end), part.end)) return false;
  if (!empty_chunks(chunks)) return false;
  // Some of it may have been withdrawn just now.
  for_each_mapped_part({part.begin, part.end}, [](const Part& left) {
    if (left.kind != Kind::block) return true;
    hide_block(left.block);
    spilling->mapped.give(left.block.begin);
    return true;
  });
  return true;
}

void note_end_of_block(const Part& part) {
  const bool is_whole = part.begin == part.block.first() && part.end == part.block.end();
  if (!is_whole) return;
  const MutexLock lock(spilling->lives_mutex);
  spilling->lives.note_spilled_end(part.block.asked_bytes, now_ns() - part.block.note);
}

int unmap_range(const Span& range) WP_REQUIRES(spilling->mapping) {
  int error = 0;
  for_each_mapped_part(range, [&](const Part& part) {
    if (part.kind == Kind::block) {
      note_end_of_block(part);
      if (!unmap_part(part)) error = ENOMEM;
    } else if (part.kind != Kind::free && unmap_elsewhere(part) != 0) {
      error = errno;
    }
    return true;
  });
  return error == 0 ? 0 : refuse_mapped(error);
}

// ---- Map ----

std::optional<PlainMapping*> free_place() WP_REQUIRES(spilling->lives_mutex) {
  for (PlainMapping& place : spilling->plain_mappings) {
    if (place.begin == 0) return &place;
  }
  return std::nullopt;
}

/// A mapping that is not to be served: the first ones, and those whose like do not live long.
void* map_plainly(void* address, size_t length, int flags, uint64_t now) {
  const MutexLock lock(spilling->lives_mutex);
  const auto place = free_place();
  if (!place) return nullptr;
  const bool is_first = may_be_first(length);
  if (!is_first && !spilling->lives.shall_be_plain(length, now)) return nullptr;
  void* const got = kernel::mmap(address, length, all_rights, flags, -1, 0);
  if (got == MAP_FAILED) return got;
  note_anonymous_mapping(length);
  const uintptr_t begin = number_at(got);
  **place = {begin, begin + length, is_first ? length : 0};
  if (is_first) {
    spilling->first_bytes += length;
  } else {
    spilling->lives.note_plain(begin, length, now);
  }
  return got;
}

void* map_served(size_t length, uint64_t now) WP_REQUIRES(spilling->mapping) {
  const size_t whole_bytes = round_up(length, spilled_chunk_bytes);
  LargeBlocks& blocks = spilling->mapped;
  auto block = blocks.take(whole_bytes, spilled_chunk_bytes, now);
  if (!block) block = take_from_more_memory(blocks, whole_bytes, spilled_chunk_bytes, now);
  if (!block) return nullptr;
  if (!withhold_spilled_memory(block->begin, whole_bytes, no_rights)) {
    blocks.give(block->begin);
    return nullptr;
  }
  // Without memory for the account the block stays longer than it has to be.
  if (blocks.resize_in_place(block->begin, length)) block = blocks.find(block->begin);
  show_block(*block);
  const MutexLock lock(spilling->lives_mutex);
  spilling->lives.note_spilled(length);
  return block->begin;
}

void tell_of_other_allocator() {
  if (has_told_of_other_allocator.exchange(true)) return;
  notice(
      "another allocator than the C library's answers malloc: memory that is mapped by mmap stays "
      "in memory, beyond the window; large blocks of malloc are served");
}

// ---- Protect ----

/// Of a block's pages [begin, end), those in chunks of other rights become the kernel's.
bool protect_part(uintptr_t begin, uintptr_t end, int protection) {
  const Span chunks = own_chunks(begin, end);
  const int withheld = all_rights & ~protection;
  const auto protect_edge = [&](uintptr_t from, uintptr_t to) {
    if (from >= to || withheld_of_chunk(chunk_of(from)) == withheld) return true;
    return withdraw_chunks({from, to}, "protected parts of it that are no whole chunks") &&
           kernel::mprotect(pointer_to(from), to - from, protection) == 0;
  };
  const uintptr_t front_end = std::min(chunks.begin, end);
  if (!protect_edge(begin, front_end) || !protect_edge(std::max(chunks.end, front_end), end))
    return false;
  if (chunks.is_empty()) return true;
  const uintptr_t first = std::max(chunks.begin, begin);
  const uintptr_t last = std::min(chunks.end, end);
  if (!cut_block(first) || !cut_block(last) ||
      !withhold_spilled_memory(pointer_to(chunks.begin), chunks.length_bytes(), withheld))
    return false;
  spilling->mapped.set_withheld(first, withheld);
  return true;
}

// ---- Advise ----

/// The pages of a block are zeros from now on.
bool clear_part_of_block(const Part& part) {
  const Span chunks = whole_chunks({part.begin, part.end});
  const auto clear_edge = [](uintptr_t from, uintptr_t to) {
    if (from >= to) return 0;
    if (withheld_of_chunk(chunk_of(from)) == 0) {
      std::memset(pointer_to(from), 0, to - from);
      return 0;
    }
    if (!withdraw_chunks({from, to}, "discarded a part of what it had protected")) return -1;
    return kernel::madvise(pointer_to(from), to - from, MADV_DONTNEED);
  };
  if (chunks.is_empty()) {
    const uintptr_t border = std::min(round_up(part.begin, spilled_chunk_bytes), part.end);
    return clear_edge(part.begin, border) == 0 && clear_edge(border, part.end) == 0;
  }
  if (clear_edge(part.begin, chunks.begin) != 0 || clear_edge(chunks.end, part.end) != 0)
    return false;
  std::byte* const begin = pointer_to(chunks.begin);
  if (forget_or_wait(begin, chunks.length_bytes())) return true;
  // Somebody holds pages.
  if (part.block.withheld == 0) {
    std::memset(begin, 0, chunks.length_bytes());
    return true;
  }
  return withdraw_chunks(chunks, "discarded what a device still reads or writes") &&
         kernel::madvise(begin, chunks.length_bytes(), MADV_DONTNEED) == 0;
}

enum class Answer : uint8_t { nothing, clear, look_ahead, consumed, unknown };

Answer answer_to(int advice) {
  switch (advice) {
    case MADV_DONTNEED:
    case MADV_FREE:
      return Answer::clear;
    case MADV_WILLNEED:
    case 22:  // MADV_POPULATE_READ
    case 23:  // MADV_POPULATE_WRITE
      return Answer::look_ahead;
    case MADV_COLD:
    case MADV_PAGEOUT:
      return Answer::consumed;
    case MADV_NORMAL:
    case MADV_RANDOM:
    case MADV_SEQUENTIAL:
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case 25:  // MADV_COLLAPSE
    case MADV_DODUMP:
    case MADV_DONTDUMP:
    case MADV_DOFORK:
    case MADV_DONTFORK:
    case MADV_MERGEABLE:
    case MADV_UNMERGEABLE:
      return Answer::nothing;
    default:
      return Answer::unknown;
  }
}

int advise_part(const Part& part, Answer answer) {
  void* const address = pointer_to(part.begin);
  if (answer == Answer::clear) return clear_part_of_block(part) ? 0 : refuse_mapped(ENOMEM);
  if (answer == Answer::look_ahead) will_need(address, part.end - part.begin);
  if (answer == Answer::consumed) consumed(address, part.end - part.begin);
  return 0;
}

int advise_elsewhere(const Part& part, int advice, Answer answer) {
  void* const address = pointer_to(part.begin);
  const size_t length = part.end - part.begin;
  if (!is_of_session(part)) return kernel::madvise(address, length, advice);
  if (answer == Answer::clear) {
    discard(address, length);
    return 0;
  }
  return advise_part(part, answer);
}

// ---- Move ----

/// The block that has the whole range, if one has.
std::optional<Block> block_with(const Span& range) {
  const Part part = spilling->mapped.first_part(range.begin, range.end);
  if (part.kind != Kind::block || part.end != range.end) return std::nullopt;
  return part.block;
}

void* grow(const Span& range, size_t new_bytes, int flags) WP_REQUIRES(spilling->mapping) {
  const auto block = block_with(range);
  std::byte* const begin = pointer_to(range.begin);
  const bool is_tail = range.end == block->end();
  const size_t length = range.begin - block->first() + new_bytes;
  if (is_tail && spilling->mapped.resize_in_place(block->begin, length)) {
    // The chunks behind the old end were no mapping's.
    const uintptr_t from = round_up(range.end, spilled_chunk_bytes);
    const uintptr_t to = round_up(range.begin + new_bytes, spilled_chunk_bytes);
    if (from >= to || withhold_spilled_memory(pointer_to(from), to - from, no_rights)) {
      hide_block(*block);
      show_block(*spilling->mapped.find(block->begin));
      return begin;
    }
    spilling->mapped.resize_in_place(block->begin, block->asked_bytes);
  }
  if ((flags & MREMAP_MAYMOVE) == 0) return nullptr;
  void* const moved = map_served(new_bytes, now_ns());
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, begin, range.length_bytes());
  unmap_range(range);
  return moved;
}

void* refuse_move(int error) {
  errno = error;
  return MAP_FAILED;
}

bool is_hole(const Span& range) {
  bool is_any_free = false;
  for_each_mapped_part(range, [&](const Part& part) {
    is_any_free = is_any_free || part.kind == Kind::free;
    return true;
  });
  return is_any_free;
}

}  // namespace

// What the pager and the interposer allocate must be plain memory.
void begin_mapping() {
  void* const answers = dlsym(RTLD_DEFAULT, "malloc");
  void* const next = dlsym(RTLD_NEXT, "malloc");
  void* const libc = dlsym(RTLD_NEXT, "__libc_malloc");
  Dl_info answering{};
  Dl_info own{};
  const bool is_ours = dladdr(answers, &answering) != 0 &&
                       dladdr(reinterpret_cast<void*>(&begin_mapping), &own) != 0 &&
                       answering.dli_fbase == own.dli_fbase;
  has_other_allocator = !is_ours || next == nullptr || next != libc;
  mapping_bytes_max =
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// MAP_NORESERVE changes nothing, since what is served needs no room in memory. Nor does
// MAP_POPULATE: to bring zeros into the window would push weights out of it.
bool asks_for_large_mapping(size_t length, int protection, int flags) {
  constexpr int wanted = MAP_PRIVATE | MAP_ANONYMOUS;
  return asks_for_large(length) && protection == all_rights &&
         (flags & ~(MAP_NORESERVE | MAP_POPULATE)) == wanted && length >= spilled_chunk_bytes &&
         length <= mapping_bytes_max && !is_forking;
}

void* map_large(void* address, size_t length, int flags) {
  if (has_other_allocator) {
    tell_of_other_allocator();
    return nullptr;
  }
  const int error = errno;
  const size_t whole_bytes = round_up(length, os_page_bytes);
  const uint64_t now = now_ns();
  void* got = map_plainly(address, whole_bytes, flags, now);
  if (got == MAP_FAILED) return got;
  if (got == nullptr) {
    const Inside inside;
    const MutexLock lock(spilling->mapping);
    got = map_served(whole_bytes, now);
  }
  errno = error;
  return got;
}

void note_unmapped(void* address, size_t length) {
  if (spilling == nullptr || !asks_for_large(length) || is_forking) return;
  const uintptr_t begin = number_at(address);
  const uintptr_t end = begin + round_up(length, os_page_bytes);
  const MutexLock lock(spilling->lives_mutex);
  for (PlainMapping& it : spilling->plain_mappings) {
    if (it.begin == 0 || it.end <= begin || end <= it.begin) continue;
    // A part of it counts as all of it.
    if (it.first_bytes > 0) {
      spilling->first_bytes -= it.first_bytes;
    } else {
      spilling->lives.note_plain_end(it.begin, now_ns());
    }
    it = {};
  }
}

bool touches_mapped(const void* address, size_t length) {
  if (spilling == nullptr || spilling->is_child.load(std::memory_order_relaxed)) return false;
  const uintptr_t begin = number_at(address);
  return begin < spilled_end.load(std::memory_order_relaxed) &&
         spilling->mapped.touches(begin, begin + length);
}

int unmap_mapped(void* address, size_t length) {
  const auto range = pages_in(address, length);
  if (!range) return refuse_mapped(EINVAL);
  if (is_forking) return 0;  // it stays: its locks are held
  const Inside inside;
  const MutexLock lock(spilling->mapping);
  return unmap_range(*range);
}

int protect_mapped(void* address, size_t length, int protection) {
  if (length == 0 && number_at(address) % os_page_bytes == 0) return 0;
  const auto range = pages_in(address, length);
  if (!range) return refuse_mapped(EINVAL);
  if (is_forking) return refuse_mapped(EAGAIN);
  const Inside inside;
  const MutexLock lock(spilling->mapping);
  // On this processor what may be written may be read.
  const int rights = (protection & PROT_WRITE) != 0 ? protection | PROT_READ : protection;
  const bool is_plain_request = (rights & ~all_rights) == 0;
  int error = 0;
  for_each_mapped_part(*range, [&](const Part& part) {
    error = 0;
    if (part.kind == Kind::free) {
      error = ENOMEM;
    } else if (part.kind == Kind::block && is_plain_request) {
      error = protect_part(part.begin, part.end, rights) ? 0 : ENOMEM;
    } else if (part.kind == Kind::block) {
      const bool is_done = withdraw_chunks({part.begin, part.end}, "is to execute some of it");
      error = is_done ? 0 : ENOMEM;
      if (is_done && kernel::mprotect(pointer_to(part.begin), part.end - part.begin, protection))
        error = errno;
    } else if (protect_elsewhere(part, protection) != 0) {
      error = errno;
    }
    return error == 0;
  });
  return error == 0 ? 0 : refuse_mapped(error);
}

int advise_mapped(void* address, size_t length, int advice) {
  if (length == 0 && number_at(address) % os_page_bytes == 0) return 0;
  const auto range = pages_in(address, length);
  if (!range) return refuse_mapped(EINVAL);
  if (is_forking) return refuse_mapped(EAGAIN);
  const Inside inside;
  const MutexLock lock(spilling->mapping);
  const Answer answer = answer_to(advice);
  int error = 0;
  for_each_mapped_part(*range, [&](const Part& part) {
    if (part.kind == Kind::free) {
      error = ENOMEM;
    } else if (part.kind == Kind::block) {
      const bool is_done = answer != Answer::unknown && advise_part(part, answer) == 0;
      if (!is_done) error = answer == Answer::unknown ? EINVAL : ENOMEM;
    } else if (advise_elsewhere(part, advice, answer) != 0) {
      error = errno;
    }
    return error != EINVAL;
  });
  return error == 0 ? 0 : refuse_mapped(error);
}

int check_mapped(const void* address, size_t length) {
  const uintptr_t begin = round_down(number_at(address), os_page_bytes);
  const Span range{begin, round_up(number_at(address) + length, os_page_bytes)};
  return is_hole(range) ? refuse_mapped(ENOMEM) : 0;
}

bool make_way(void* address, size_t length, bool keeps_bytes) {
  const auto range = pages_in(address, length);
  if (!range) return true;  // the kernel refuses it
  if (is_forking) return refuse_mapped(EAGAIN) == 0;
  const Inside inside;
  const MutexLock lock(spilling->mapping);
  const bool is_done = for_each_mapped_part(*range, [&](const Part& part) {
    const bool is_served = part.kind == Kind::block || part.kind == Kind::free;
    if (is_of_session(part)) unmap_elsewhere(part);
    // The range must stay mapped, or another thread's mapping could get there.
    if (part.kind == Kind::block && !keeps_bytes) forget_if_can(own_chunks(part.begin, part.end));
    return !is_served ||
           withdraw_chunks({part.begin, part.end}, "mapped something else over a part of it");
  });
  if (!is_done) errno = ENOMEM;
  return is_done;
}

void* move_mapped(void* address, size_t old_length, size_t new_length, int flags, void* target) {
  const auto range = pages_in(address, old_length);
  constexpr int known = MREMAP_MAYMOVE | MREMAP_FIXED | 4;  // MREMAP_DONTUNMAP
  if (!range || new_length == 0 || (flags & ~known) != 0) return refuse_move(EINVAL);
  const size_t new_bytes = round_up(new_length, os_page_bytes);
  if (is_forking) return refuse_move(EAGAIN);
  const int error = errno;
  const Inside inside;
  const MutexLock lock(spilling->mapping);
  if (is_hole(*range)) return refuse_move(EFAULT);
  const auto block = block_with(*range);
  const bool is_simple = (flags & ~MREMAP_MAYMOVE) == 0 && block && block->withheld == 0;
  if (is_simple && new_bytes <= range->length_bytes()) {
    if (new_bytes == range->length_bytes()) return address;
    const int status = unmap_range({range->begin + new_bytes, range->end});
    return status == 0 ? address : MAP_FAILED;
  }
  if (is_simple) {
    void* const grown = grow(*range, new_bytes, flags);
    if (grown == nullptr) return refuse_move(ENOMEM);
    errno = error;
    return grown;
  }
  const bool is_withdrawn = for_each_mapped_part(*range, [](const Part& part) {
    return part.kind != Kind::block ||
           withdraw_chunks({part.begin, part.end}, "moved some of it by mremap");
  });
  if (!is_withdrawn) return refuse_move(ENOMEM);
  return kernel::mremap(address, old_length, new_length, flags, target);
}

}  // namespace weightpager::preload
