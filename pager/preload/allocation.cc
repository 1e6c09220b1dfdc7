// The C library's allocator, caught by LD_PRELOAD: large blocks are the pager's (spilled_blocks.h),
// all others are the next library's, libc's or that of another allocator.
//
// Small requests are many, so they cost a comparison and a jump more than without the interposer.
// All blocks that are not simply the next library's begin at pages, as few others do: spilled
// blocks, libc's blocks of a size that does not live long (short_lived_blocks.h), and the blocks of
// a look-up. So free asks no more than that of other blocks.
//
// The dynamic loader and libc's start call malloc before any constructor, and dlsym, which finds
// the next library's functions, may call it, too. So each function is looked up when it is first
// needed. What is asked for in a look-up comes from a few pages, and is never given back.

// In a build with a sanitizer its runtime answers these calls, and nothing is spilled.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <dlfcn.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "pager/preload/spilled_blocks.h"

#define WP_INTERPOSE extern "C" __attribute__((visibility("default")))

namespace preload = weightpager::preload;

namespace {

using weightpager::os_page_bytes;

constexpr size_t malloc_alignment = 16;

// ---- The next library's functions ----

#define WP_ALLOCATING(each)                                                                  \
  each(malloc) each(calloc) each(realloc) each(reallocarray) each(free) each(posix_memalign) \
      each(aligned_alloc) each(memalign) each(valloc) each(pvalloc) each(malloc_usable_size)

/// Until it has been looked up, a function is one that looks it up.
struct NextAllocator {
  decltype(&::malloc) malloc;
  decltype(&::calloc) calloc;
  decltype(&::realloc) realloc;
  decltype(&::reallocarray) reallocarray;
  decltype(&::free) free;
  decltype(&::posix_memalign) posix_memalign;
  decltype(&::aligned_alloc) aligned_alloc;
  decltype(&::memalign) memalign;
  decltype(&::valloc) valloc;
  decltype(&::pvalloc) pvalloc;
  decltype(&::malloc_usable_size) malloc_usable_size;
};

extern NextAllocator next;

thread_local bool is_looking_up __attribute__((tls_model("initial-exec"))) = false;

template <typename Function>
void look_up(Function*& function, const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  // Two threads may do this at the same time, and find the same.
  if (found != nullptr)
    __atomic_store_n(&function, reinterpret_cast<Function*>(found), __ATOMIC_RELEASE);
}

void look_up_all() {
  is_looking_up = true;
#define WP_LOOK_UP_ALLOCATING(name) look_up(next.name, #name);
  WP_ALLOCATING(WP_LOOK_UP_ALLOCATING)
  is_looking_up = false;
}

// ---- Blocks of a look-up: one page each ----

constexpr size_t early_blocks_max = 16;
alignas(os_page_bytes) std::byte early_memory[early_blocks_max][os_page_bytes];
std::atomic<size_t> early_blocks{0};

bool is_early(const void* block) {
  const auto number = reinterpret_cast<uintptr_t>(block);
  const auto begin = reinterpret_cast<uintptr_t>(early_memory);
  return number >= begin && number < begin + sizeof early_memory;
}

/// Zero, because it is given out once.
void* take_early(size_t bytes) {
  if (bytes > os_page_bytes) return nullptr;
  const size_t number = early_blocks.fetch_add(1);
  return number < early_blocks_max ? early_memory[number] : nullptr;
}

// ---- The first call of each ----

void* refuse() {
  errno = ENOMEM;
  return nullptr;
}

/// Looks up the next function, and calls it. If there is none, there is no memory.
template <auto Member, auto First, typename... Arguments>
auto call_next(Arguments... arguments) {
  look_up_all();
  const auto function = next.*Member;
  WP_ASSERT(function != First);
  return function(arguments...);
}

void* first_malloc(size_t bytes) noexcept {
  if (is_looking_up) return take_early(bytes);
  return call_next<&NextAllocator::malloc, &first_malloc>(bytes);
}
void* first_calloc(size_t count, size_t bytes) noexcept {
  if (is_looking_up) return take_early(count * bytes);
  return call_next<&NextAllocator::calloc, &first_calloc>(count, bytes);
}
void first_free(void* block) noexcept {
  if (is_looking_up) return;
  call_next<&NextAllocator::free, &first_free>(block);
}
void* first_realloc(void* block, size_t bytes) noexcept {
  return is_looking_up ? nullptr : call_next<&NextAllocator::realloc, &first_realloc>(block, bytes);
}
void* first_reallocarray(void* block, size_t count, size_t bytes) noexcept {
  return call_next<&NextAllocator::reallocarray, &first_reallocarray>(block, count, bytes);
}
int first_posix_memalign(void** block, size_t alignment, size_t bytes) noexcept {
  return call_next<&NextAllocator::posix_memalign, &first_posix_memalign>(block, alignment, bytes);
}
void* first_aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return call_next<&NextAllocator::aligned_alloc, &first_aligned_alloc>(alignment, bytes);
}
void* first_memalign(size_t alignment, size_t bytes) noexcept {
  return call_next<&NextAllocator::memalign, &first_memalign>(alignment, bytes);
}
void* first_valloc(size_t bytes) noexcept {
  return call_next<&NextAllocator::valloc, &first_valloc>(bytes);
}
void* first_pvalloc(size_t bytes) noexcept {
  return call_next<&NextAllocator::pvalloc, &first_pvalloc>(bytes);
}
size_t first_malloc_usable_size(void* block) noexcept {
  return call_next<&NextAllocator::malloc_usable_size, &first_malloc_usable_size>(block);
}

constinit NextAllocator next = {
    first_malloc, first_calloc,         first_realloc,           first_reallocarray,
    first_free,   first_posix_memalign, first_aligned_alloc,     first_memalign,
    first_valloc, first_pvalloc,        first_malloc_usable_size};

__attribute__((constructor(101))) void look_up_allocator() { look_up_all(); }

// ---- Large blocks ----

/// Aligned blocks: only what is well-formed, so that libc answers the rest.
void* take_large_aligned(size_t alignment, size_t bytes) {
  const bool is_ours = preload::asks_for_large(bytes) && std::has_single_bit(alignment);
  return is_ours ? preload::take_large(bytes, alignment, false) : nullptr;
}

bool begins_at_page(const void* block) {
  return reinterpret_cast<uintptr_t>(block) % os_page_bytes == 0;
}

[[gnu::noinline]] void free_at_page(void* block) {
  if (preload::may_be_large(block) && preload::give_large(block)) return;
  if (is_early(block)) return;
  next.free(block);
}

/// Moves a block to a new place. The old one stays if there is no memory.
void* move_block(void* block, size_t length_bytes, size_t bytes) {
  void* const moved = malloc(bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, block, std::min(length_bytes, bytes));
  free(block);
  return moved;
}

void* realloc_large(void* block, size_t asked_bytes, size_t bytes) {
  if (bytes == 0) {
    free(block);
    return nullptr;
  }
  const bool stays_large = bytes >= preload::spilled_bytes_min.load(std::memory_order_relaxed);
  if (stays_large && preload::resize_large(block, bytes)) return block;
  return move_block(block, asked_bytes, bytes);
}

[[gnu::noinline]] void* realloc_rare(void* block, size_t bytes) {
  if (block == nullptr) return malloc(bytes);
  if (preload::may_be_large(block)) {
    const size_t asked_bytes = preload::large_asked_bytes(block);
    if (asked_bytes != 0) return realloc_large(block, asked_bytes, bytes);
  }
  if (is_early(block)) return move_block(block, os_page_bytes, bytes);
  if (preload::asks_for_large(bytes)) {
    void* const moved = preload::take_large(bytes, malloc_alignment, false);
    if (moved != nullptr) {
      std::memcpy(moved, block, std::min(next.malloc_usable_size(block), bytes));
      free(block);
      return moved;
    }
  }
  return next.realloc(block, bytes);
}

}  // namespace

WP_INTERPOSE void* malloc(size_t bytes) noexcept {
  if (preload::asks_for_large(bytes)) [[unlikely]] {
    if (void* const block = preload::take_large(bytes, malloc_alignment, false)) return block;
  }
  return next.malloc(bytes);
}

WP_INTERPOSE void* calloc(size_t count, size_t bytes) noexcept {
  size_t all_bytes = 0;
  const bool is_too_much = __builtin_mul_overflow(count, bytes, &all_bytes);
  if (!is_too_much && preload::asks_for_large(all_bytes)) [[unlikely]] {
    if (void* const block = preload::take_large(all_bytes, malloc_alignment, true)) return block;
  }
  return next.calloc(count, bytes);
}

WP_INTERPOSE void free(void* block) noexcept {
  if (begins_at_page(block)) [[unlikely]] {
    free_at_page(block);
    return;
  }
  next.free(block);
}

WP_INTERPOSE void* realloc(void* block, size_t bytes) noexcept {
  if (preload::asks_for_large(bytes) || begins_at_page(block)) [[unlikely]]
    return realloc_rare(block, bytes);
  return next.realloc(block, bytes);
}

WP_INTERPOSE void* reallocarray(void* block, size_t count, size_t bytes) noexcept {
  size_t all_bytes = 0;
  if (__builtin_mul_overflow(count, bytes, &all_bytes)) return refuse();
  return realloc(block, all_bytes);
}

WP_INTERPOSE size_t malloc_usable_size(void* block) noexcept {
  if (begins_at_page(block)) [[unlikely]] {
    if (is_early(block)) return os_page_bytes;
    const size_t room_bytes = preload::may_be_large(block) ? preload::large_room_bytes(block) : 0;
    if (room_bytes != 0) return room_bytes;
  }
  return next.malloc_usable_size(block);
}

WP_INTERPOSE int posix_memalign(void** place, size_t alignment, size_t bytes) noexcept {
  if (alignment % sizeof(void*) == 0) {
    if (void* const block = take_large_aligned(alignment, bytes)) {
      *place = block;
      return 0;
    }
  }
  return next.posix_memalign(place, alignment, bytes);
}

WP_INTERPOSE void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  if (void* const block = take_large_aligned(alignment, bytes)) return block;
  return next.aligned_alloc(alignment, bytes);
}

WP_INTERPOSE void* memalign(size_t alignment, size_t bytes) noexcept {
  if (void* const block = take_large_aligned(alignment, bytes)) return block;
  return next.memalign(alignment, bytes);
}

WP_INTERPOSE void* valloc(size_t bytes) noexcept {
  if (void* const block = take_large_aligned(os_page_bytes, bytes)) return block;
  return next.valloc(bytes);
}

WP_INTERPOSE void* pvalloc(size_t bytes) noexcept {
  const bool is_too_much = bytes > SIZE_MAX - os_page_bytes;
  const size_t whole_bytes = is_too_much ? 0 : weightpager::round_up(bytes, os_page_bytes);
  if (void* const block = take_large_aligned(os_page_bytes, whole_bytes)) return block;
  return next.pvalloc(bytes);
}

#endif
