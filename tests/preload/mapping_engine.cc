// A small engine that maps memory of its own, started by mappings.sh beside it, first by itself and
// then under the interposer. It makes random memory calls on large anonymous mappings, keeps its
// own account of every page, and compares.
//
//     mapping_engine random SEED STEPS    one thread, and child processes
//     mapping_engine threads SEED STEPS   four threads with mappings of their own, and their
//     children mapping_engine calls                what each call answers mapping_engine
//     shared-pages         memory that a child had mapping_engine allocator LIBRARY    an allocator
//     that only the engine knows (77: none) mapping_engine reading FILE         a file that is read
//     into mappings
//
// Exit 0: all as accounted. Otherwise each wrong page is printed, with what is there instead.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t page_bytes = 4096;
constexpr size_t mib = size_t{1} << 20;
constexpr int dont_unmap = 4;  // MREMAP_DONTUNMAP
constexpr int both = PROT_READ | PROT_WRITE;
constexpr int ours = MAP_PRIVATE | MAP_ANONYMOUS;
constexpr std::array<size_t, 3> places = {0, 2040, 4088};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "engine: %s (errno %d: %s)\n", what.c_str(), errno, std::strerror(errno));
  std::_Exit(1);
}

void expect(bool is_fine, const std::string& what) {
  if (!is_fine) fail(what);
}

// ---- Touches that may be refused ----

thread_local sigjmp_buf refused;
thread_local volatile bool may_be_refused = false;

void on_signal(int number) {
  if (may_be_refused) siglongjmp(refused, 1);
  signal(number, SIG_DFL);
  raise(number);
}

/// Whether `act()` ran to its end.
template <typename Act>
bool is_allowed(Act act) {
  if (sigsetjmp(refused, 1) != 0) {
    may_be_refused = false;
    return false;
  }
  may_be_refused = true;
  act();
  may_be_refused = false;
  return true;
}

// ---- The account ----

struct Page {
  uint64_t value = 0;
  uint8_t protection = both;
  bool may_be_zero = false;  // MADV_FREE: the kernel frees the page when it wants to
};

using Pages = std::vector<Page>;

uint64_t word_at(uintptr_t page, size_t place) {
  return *reinterpret_cast<volatile uint64_t*>(page + places[place]);
}

void write_page(uintptr_t page, uint64_t value) {
  for (size_t place = 0; place < places.size(); ++place)
    *reinterpret_cast<volatile uint64_t*>(page + places[place]) = value + (value == 0 ? 0 : place);
}

bool is_value(uintptr_t page, uint64_t value) {
  for (size_t place = 0; place < places.size(); ++place) {
    if (word_at(page, place) != value + (value == 0 ? 0 : place)) return false;
  }
  return true;
}

class Engine {
 public:
  Engine(uint64_t seed, bool is_alone, uint64_t name)
      : random_(seed), is_alone_(is_alone), next_value_(name << 48 | 0x1000) {}

  void run(int steps) {
    for (step_ = 0; step_ < steps; ++step_) {
      step();
      if (wrong_ > 0) std::_Exit(1);
    }
    for (const auto& [begin, pages] : blocks_) check(begin, pages, 0, pages.size());
    while (!blocks_.empty()) {
      const auto it = blocks_.begin();
      munmap(reinterpret_cast<void*>(it->first), it->second.size() * page_bytes);
      blocks_.erase(it);
    }
    if (wrong_ > 0) std::_Exit(1);
  }

 private:
  using Blocks = std::map<uintptr_t, Pages>;
  struct Part {
    uintptr_t begin;  // of the block
    size_t first;
    size_t count;
    uintptr_t address() const { return begin + first * page_bytes; }
    void* pointer() const { return reinterpret_cast<void*>(address()); }
    size_t bytes() const { return count * page_bytes; }
  };

  size_t below(size_t end) { return end == 0 ? 0 : random_() % end; }

  void wrong(uintptr_t page, const Page& expected) {
    if (++wrong_ > 200) return;
    std::fprintf(stderr, "step %d, after %s: page %lx is %lx %lx %lx, not %lx\n", step_,
                 last_.c_str(), page, word_at(page, 0), word_at(page, 1), word_at(page, 2),
                 expected.value);
  }

  void check_page(uintptr_t page, const Page& expected) {
    if ((expected.protection & PROT_READ) == 0) return;
    const bool is_right =
        is_value(page, expected.value) || (expected.may_be_zero && is_value(page, 0));
    if (!is_right) wrong(page, expected);
  }

  void check(uintptr_t begin, const Pages& pages, size_t first, size_t count) {
    for (size_t i = first; i < first + count; ++i) check_page(begin + i * page_bytes, pages[i]);
  }

  Blocks::iterator some_block() {
    auto it = blocks_.begin();
    std::advance(it, static_cast<long>(below(blocks_.size())));
    return it;
  }

  /// At the beginning, the end, in the middle, or all; half of the borders are rounded to 2 MiB.
  Part some_part(const Blocks::iterator& it) {
    const size_t all = it->second.size();
    size_t first = below(4) == 0 ? 0 : below(all);
    size_t end = below(4) == 0 ? all : first + 1 + below(all - first);
    if (below(2) == 0) {
      const size_t phase = it->first / page_bytes % 512;
      first = std::max(phase, (first + phase) / 512 * 512) - phase;
      end = std::min(all, (end + phase + 511) / 512 * 512 - phase);
    }
    if (below(6) == 0) first = 0, end = all;
    return {it->first, first, end - first};
  }

  Pages& pages_of(const Part& part) { return blocks_.at(part.begin); }

  /// The part leaves the account; returns what it was.
  Pages take_out(const Part& part) {
    Pages all = std::move(blocks_.at(part.begin));
    blocks_.erase(part.begin);
    const auto at = [&](size_t i) { return all.begin() + static_cast<long>(i); };
    const size_t end = part.first + part.count;
    if (part.first > 0) blocks_[part.begin] = Pages(at(0), at(part.first));
    if (end < all.size()) blocks_[part.begin + end * page_bytes] = Pages(at(end), all.end());
    return Pages(at(part.first), at(end));
  }

  void add(void* address, Pages pages) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    const uintptr_t end = begin + pages.size() * page_bytes;
    for (const auto& [other, its] : blocks_) {
      if (begin < other + its.size() * page_bytes && other < end)
        fail("two mappings at one address");
    }
    blocks_[begin] = std::move(pages);
  }

  size_t mapped_bytes() const {
    size_t bytes = 0;
    for (const auto& [begin, pages] : blocks_) bytes += pages.size() * page_bytes;
    return bytes;
  }

  size_t some_length() {
    const size_t bytes = 4 * mib + below(36 * mib);
    return below(3) == 0 ? bytes / (2 * mib) * (2 * mib) : bytes / page_bytes * page_bytes;
  }

  // ---- Steps ----

  void step() {
    const size_t what = below(100);
    if (blocks_.empty() || (what < 14 && mapped_bytes() < bytes_max_)) return map();
    if (blocks_.size() > 40) return unmap();
    if (what < 36) return write();
    if (what < 54) return read();
    if (what < 64) return unmap();
    if (what < 74) return protect();
    if (what < 82) return advise();
    if (what < 92) return remap();
    if (what < 95) return map_over();
    if (what < 97) return ask();
    fork_one();
  }

  void map() {
    last_ = "mmap";
    const size_t bytes = some_length();
    int flags = ours;
    if (below(3) == 0) flags |= MAP_NORESERVE;
    if (below(20) == 0) flags |= MAP_POPULATE;
    void* const got = mmap(nullptr, bytes, both, flags, -1, 0);
    expect(got != MAP_FAILED, "mmap");
    add(got, Pages(bytes / page_bytes));
    const auto begin = reinterpret_cast<uintptr_t>(got);
    for (int i = 0; i < 100; ++i) check_page(begin + below(bytes / page_bytes) * page_bytes, {});
  }

  void write() {
    const Part part = some_part(some_block());
    Pages& pages = pages_of(part);
    const size_t stride = below(3) == 0 ? 1 : 1 + below(64);
    for (size_t i = part.first; i < part.first + part.count; i += stride) {
      Page& page = pages[i];
      const uintptr_t address = part.begin + i * page_bytes;
      if (page.protection == both) {
        page.value = next_value_;
        page.may_be_zero = false;
        write_page(address, next_value_);
        next_value_ += 8;
      } else if (below(64) == 0) {
        const bool is_written = is_allowed([&] { write_page(address, 1); });
        if (is_written) fail("a write that the protection forbids");
      }
    }
  }

  void read() {
    last_ += ", read";
    const Part part = some_part(some_block());
    check(part.begin, pages_of(part), part.first, part.count);
    const Page& page = pages_of(part)[part.first];
    if (page.protection != PROT_NONE) return;
    if (is_allowed([&] { word_at(part.address(), 0); })) fail("a read that the protection forbids");
  }

  void unmap() {
    const Part part = some_part(some_block());
    check(part.begin, pages_of(part), part.first, part.count);
    size_t bytes = part.bytes();
    last_ = "munmap of " + std::to_string(part.first) + " +" + std::to_string(part.count);
    take_out(part);
    // On into whatever lies behind it, if that is ours.
    const auto behind = blocks_.find(part.address() + bytes);
    if (behind != blocks_.end() && below(2) == 0) {
      const size_t more = 1 + below(behind->second.size());
      take_out({behind->first, 0, more});
      bytes += more * page_bytes;
    }
    expect(munmap(part.pointer(), bytes - below(page_bytes)) == 0, "munmap");
    if (!is_alone_) return;
    // Nobody has mapped anything there by now.
    for (int i = 0; i < 4; ++i) {
      const uintptr_t page = part.address() + below(bytes / page_bytes) * page_bytes;
      const bool is_there = is_allowed([&] { word_at(page, 0); });
      if (is_there && !is_value(page, 0)) wrong(page, {});
    }
  }

  void protect() {
    const Part part = some_part(some_block());
    constexpr std::array<int, 4> kinds = {PROT_NONE, PROT_READ, both, both};
    const int protection = kinds[below(kinds.size())];
    last_ = "mprotect to " + std::to_string(protection);
    expect(mprotect(part.pointer(), part.bytes(), protection) == 0, "mprotect");
    Pages& pages = pages_of(part);
    for (size_t i = part.first; i < part.first + part.count; ++i)
      pages[i].protection = static_cast<uint8_t>(protection);
  }

  void advise() {
    const Part part = some_part(some_block());
    constexpr std::array<int, 7> kinds = {MADV_DONTNEED, MADV_DONTNEED,   MADV_FREE, MADV_WILLNEED,
                                          MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_COLD};
    const int advice = kinds[below(kinds.size())];
    last_ = "madvise " + std::to_string(advice);
    expect(madvise(part.pointer(), part.bytes(), advice) == 0, last_);
    Pages& pages = pages_of(part);
    for (size_t i = part.first; i < part.first + part.count; ++i) {
      if (advice == MADV_DONTNEED) pages[i].value = 0;
      if (advice == MADV_FREE) pages[i].may_be_zero = true;
    }
  }

  // The kernel moves no more than one of its mappings at a time, and advice divides those.
  bool is_moved(const void* got) {
    if (got != MAP_FAILED) return true;
    expect(errno == EFAULT || errno == ENOMEM, last_);
    return false;
  }

  static bool are_alike(const Pages& pages, const Part& part) {
    return std::all_of(
        pages.begin() + static_cast<long>(part.first),
        pages.begin() + static_cast<long>(part.first + part.count),
        [&](const Page& it) { return it.protection == pages[part.first].protection; });
  }

  void remap() {
    const Part part = some_part(some_block());
    if (!are_alike(pages_of(part), part)) return;
    switch (below(5)) {
      case 0:
        return shrink(part);
      case 1:
        return grow(part, 0);
      case 2:
        return grow(part, MREMAP_MAYMOVE);
      case 3:
        return move(part);
      default:
        return move_and_stay(part);
    }
  }

  void shrink(const Part& part) {
    last_ = "mremap to fewer pages";
    const size_t left = 1 + below(part.count);
    void* const got = mremap(part.pointer(), part.bytes(), left * page_bytes, 0);
    expect(got == part.pointer(), last_);
    if (left < part.count) take_out({part.begin, part.first + left, part.count - left});
  }

  void grow(const Part& part, int flags) {
    last_ = "mremap to more pages, flags " + std::to_string(flags);
    const size_t more = 1 + below(4 * mib / page_bytes);
    if (mapped_bytes() > bytes_max_) return;
    const int protection = pages_of(part)[part.first].protection;
    void* const got = mremap(part.pointer(), part.bytes(), part.bytes() + more * page_bytes, flags);
    if (!is_moved(got)) return;
    Pages pages = take_out(part);
    pages.resize(pages.size() + more, Page{0, static_cast<uint8_t>(protection)});
    add(got, std::move(pages));
  }

  void move(const Part& part) {
    last_ = "mremap to a fixed place";
    // A place that is nobody's, or a part of another mapping.
    auto other = some_block();
    const bool is_over = other->first != part.begin && below(2) == 0;
    void* target = nullptr;
    if (is_over) {
      Part over = some_part(other);
      if (over.count < part.count) return;
      over.count = part.count;
      take_out(over);
      target = over.pointer();
    } else {
      target = mmap(nullptr, part.bytes(), PROT_NONE, ours | MAP_NORESERVE, -1, 0);
      expect(target != MAP_FAILED, "mmap of addresses");
    }
    const bool is_done = is_moved(
        mremap(part.pointer(), part.bytes(), part.bytes(), MREMAP_MAYMOVE | MREMAP_FIXED, target));
    if (!is_done) munmap(target, part.bytes());
    if (is_done) add(target, take_out(part));
  }

  void move_and_stay(const Part& part) {
    last_ = "mremap that leaves zeros";
    if (mapped_bytes() > bytes_max_) return;
    void* const got =
        mremap(part.pointer(), part.bytes(), part.bytes(), MREMAP_MAYMOVE | dont_unmap, nullptr);
    if (!is_moved(got)) return;
    Pages& pages = pages_of(part);
    const auto first = pages.begin() + static_cast<long>(part.first);
    Pages moved(first, first + static_cast<long>(part.count));
    for (size_t i = part.first; i < part.first + part.count; ++i) {
      pages[i].value = 0;
      pages[i].may_be_zero = false;
    }
    add(got, std::move(moved));
  }

  void map_over() {
    const Part part = some_part(some_block());
    const int protection = below(2) == 0 ? PROT_NONE : both;
    last_ = "mmap at a fixed place";
    void* const got =
        mmap(part.pointer(), part.bytes(), protection, ours | MAP_FIXED | MAP_NORESERVE, -1, 0);
    expect(got == part.pointer(), last_);
    Pages& pages = pages_of(part);
    for (size_t i = part.first; i < part.first + part.count; ++i)
      pages[i] = {0, static_cast<uint8_t>(protection)};
  }

  void ask() {
    const Part part = some_part(some_block());
    std::vector<unsigned char> there(part.count);
    expect(msync(part.pointer(), part.bytes(), MS_ASYNC) == 0, "msync");
    expect(mincore(part.pointer(), part.bytes(), there.data()) == 0, "mincore");
    expect(munlock(part.pointer(), part.bytes()) == 0, "munlock");
  }

  void fork_one() {
    last_ += ", fork";
    const pid_t child = fork();
    expect(child >= 0, "fork");
    if (child == 0) {
      last_ += ", in the child";
      for (const auto& [begin, pages] : blocks_) {
        for (size_t i = below(8); i < pages.size(); i += 1 + below(16))
          check_page(begin + i * page_bytes, pages[i]);
      }
      // What it does to its copy is its own matter.
      for (auto& [begin, pages] : blocks_) {
        if (pages[0].protection != both) continue;
        pages[0] = {5, both};
        write_page(begin, 5);
      }
      unmap();
      std::_Exit(wrong_ > 0 ? 1 : 0);
    }
    int status = 0;
    expect(waitpid(child, &status, 0) == child && status == 0,
           "a child sees other bytes: status " + std::to_string(status));
  }

  std::mt19937_64 random_;
  const bool is_alone_;
  uint64_t next_value_;
  const size_t bytes_max_ = 160 * mib;
  Blocks blocks_;
  int step_ = 0;
  int wrong_ = 0;
  std::string last_ = "nothing";
};

int run_threads(uint64_t seed, int steps) {
  std::vector<std::thread> threads;
  for (uint64_t self = 1; self <= 4; ++self)
    threads.emplace_back([=] { Engine(seed * 64 + self, false, self).run(steps); });
  for (auto& thread : threads) thread.join();
  return 0;
}

// ---- What each call answers ----

char* map_some(size_t bytes) {
  void* const got = mmap(nullptr, bytes, both, ours, -1, 0);
  expect(got != MAP_FAILED, "mmap");
  return static_cast<char*>(got);
}

void expect_error(long result, int error, const char* what) {
  expect(result == -1 && errno == error, what);
}

int calls() {
  char* const block = map_some(9 * mib + 4096);
  std::memset(block, 7, 9 * mib + 4096);
  errno = 17;
  char* const other = map_some(8 * mib);
  expect(munmap(other, 8 * mib) == 0 && errno == 17, "mmap and munmap changed errno");
  expect_error(munmap(block + 5, 4096), EINVAL, "munmap of no page's border");
  expect_error(munmap(block, 0), EINVAL, "munmap of nothing");
  expect_error(mprotect(block + 5, 4096, PROT_READ), EINVAL, "mprotect of no page's border");
  expect_error(madvise(block + 5, 4096, MADV_DONTNEED), EINVAL, "madvise of no page's border");
  expect_error(madvise(block, 4096, 12345), EINVAL, "advice that there is not");
  expect(mprotect(block, 0, PROT_READ) == 0, "mprotect of nothing");
  void* got = mremap(block, 9 * mib, 0, 0);
  expect(got == MAP_FAILED && errno == EINVAL, "mremap to nothing");
  got = mremap(block + 5, 4096, 8192, MREMAP_MAYMOVE);
  expect(got == MAP_FAILED && errno == EINVAL, "mremap of no page's border");

  // A hole: what lies on both sides of it is reached, and the hole is told.
  expect(munmap(block + 4 * mib, 2 * mib) == 0, "munmap of a middle");
  expect_error(madvise(block, 9 * mib, MADV_WILLNEED), ENOMEM, "madvise across a hole");
  expect_error(mprotect(block, 9 * mib, PROT_READ), ENOMEM, "mprotect across a hole");
  expect_error(msync(block, 9 * mib, MS_ASYNC), ENOMEM, "msync across a hole");
  std::vector<unsigned char> there(9 * mib / page_bytes);
  expect_error(mincore(block, 9 * mib, there.data()), ENOMEM, "mincore across a hole");
  expect(!is_allowed([&] { block[0] = 1; }), "mprotect up to a hole");
  expect(block[6 * mib] == 7 && block[0] == 7, "bytes beside a hole");
  expect(munmap(block, 9 * mib + 4096) == 0, "munmap across a hole");
  expect(!is_allowed([&] { block[mib] = 1; }), "a touch of what is unmapped");

  // Code.
  char* const code = map_some(6 * mib);
  std::memset(code, 0xc3, 6 * mib);  // ret
  expect(mprotect(code, 6 * mib, PROT_READ | PROT_EXEC) == 0, "mprotect for execution");
  reinterpret_cast<void (*)()>(code + 5 * mib)();
  expect(munmap(code, 6 * mib) == 0, "munmap of code");

  // A file over a part of a block.
  char* const mixed = map_some(8 * mib);
  std::memset(mixed, 9, 8 * mib);
  const int self = open("/proc/self/exe", O_RDONLY);
  got = mmap(mixed + mib, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, self, 0);
  expect(got == mixed + mib && std::memcmp(got, "\177ELF", 4) == 0, "a file over a block");
  expect(mixed[mib - 1] == 9 && mixed[mib + 4096] == 9, "bytes beside a file");
  got = mmap(mixed + 4 * mib, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, -1, 0);
  expect(got == MAP_FAILED && errno == EBADF && mixed[4 * mib] == 9, "a bad file over a block");
  expect(munmap(mixed, 8 * mib) == 0, "munmap of both");

  // Reservations are free, and never touched.
  got = mmap(nullptr, size_t{1} << 42, both, ours | MAP_NORESERVE, -1, 0);
  expect(got != MAP_FAILED && munmap(got, size_t{1} << 42) == 0, "a large reservation");
  return 0;
}

// A child shares huge pages with its parent, which gets copies of what it writes meanwhile, and the
// rest of each huge page when the child is gone.
int shared_pages() {
  constexpr size_t bytes = 32 * mib;
  char* const block = map_some(bytes);
  std::memset(block, 1, bytes);
  int ends[2];
  expect(pipe(ends) == 0, "pipe");
  const pid_t child = fork();
  expect(child >= 0, "fork");
  if (child == 0) {
    close(ends[1]);
    char byte = 0;
    std::_Exit(read(ends[0], &byte, 1) == 0 && block[5 * mib] == 1 ? 0 : 1);
  }
  for (size_t at = 0; at < bytes; at += 2 * mib) block[at] = 2;
  close(ends[1]);
  int status = 0;
  expect(waitpid(child, &status, 0) == child, "waitpid");
  expect(status == 0, "a child sees other bytes");
  for (size_t at = page_bytes; at < bytes; at += page_bytes) {
    if (at % (2 * mib) != 0) block[at] = 3;
  }
  // Each chunk has to leave the place where it is.
  for (size_t at = 0; at < bytes; at += 2 * mib)
    expect(mprotect(block + at + mib, page_bytes, PROT_READ) == 0, "mprotect");
  for (size_t at = 0; at < bytes; at += page_bytes)
    expect(block[at] == (at % (2 * mib) == 0 ? 2 : 3) && block[at + 1] == 1, "other bytes");
  return 0;
}

// An allocator that is not the process's, as programs have one of their own.
int allocator(const char* library) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    std::printf("%s\n", dlerror());
    return 77;
  }
  const auto take = reinterpret_cast<void* (*)(size_t)>(dlsym(handle, "malloc"));
  const auto give = reinterpret_cast<void (*)(void*)>(dlsym(handle, "free"));
  expect(take != nullptr && give != nullptr && take != &malloc, "functions of the allocator");
  std::vector<unsigned char*> blocks;
  const auto bytes_of = [](size_t i) { return 3 * mib + i * (mib + 4096); };
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < 12; ++i) {
      auto* const block = static_cast<unsigned char*>(take(bytes_of(i)));
      expect(block != nullptr, "malloc");
      std::memset(block, static_cast<int>(i + 1), bytes_of(i));
      blocks.push_back(block);
    }
    for (size_t i = 0; i < 12; ++i) {
      const unsigned char* const block = blocks[i];
      for (size_t at = 0; at < bytes_of(i); at += 512) expect(block[at] == i + 1, "other bytes");
    }
    for (unsigned char* const block : blocks) give(block);
    blocks.clear();
  }
  return 0;
}

int reading(const char* path) {
  const int fd = open(path, O_RDONLY);
  struct stat facts;
  expect(fd >= 0 && fstat(fd, &facts) == 0, "open");
  const auto bytes = static_cast<size_t>(facts.st_size);
  char* const block = map_some(bytes);
  char* const once_more = map_some(bytes);
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = read(fd, block + done, bytes - done);
    expect(got > 0, "read");
    done += static_cast<size_t>(got);
  }
  for (size_t at = 0; at < bytes; at += 8191) {
    char byte = 0;
    expect(pread(fd, &byte, 1, static_cast<off_t>(at)) == 1 && byte == block[at], "other bytes");
  }
  // It is the engine's own copy.
  std::memcpy(once_more, block, bytes);
  block[5] = static_cast<char>(block[5] + 1);
  expect(std::memcmp(once_more + 6, block + 6, bytes - 6) == 0, "a copy has other bytes");
  expect(mprotect(once_more, bytes, PROT_READ) == 0, "mprotect");
  errno = 0;
  expect(pread(fd, once_more, bytes, 0) == -1 && errno == EFAULT, "read into what is read-only");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  signal(SIGSEGV, on_signal);
  signal(SIGBUS, on_signal);
  if (mode == "calls") return calls();
  if (mode == "shared-pages") return shared_pages();
  if (mode == "allocator" && argc == 3) return allocator(argv[2]);
  if (mode == "reading" && argc == 3) return reading(argv[2]);
  if (argc != 4) return 2;
  const uint64_t seed = std::strtoull(argv[2], nullptr, 10);
  const int steps = std::atoi(argv[3]);
  if (mode == "threads") return run_threads(seed, steps);
  if (mode != "random") return 2;
  Engine(seed, true, 1).run(steps);
  return 0;
}
