// What a window in shared memory can rely on, asked of the running kernel.
//
// Slots live in a memfd. A file is read into it through an alias that nobody watches; the engine
// sees it through views registered for missing and minor faults, into which MADV_COLLAPSE or
// UFFDIO_CONTINUE maps what is there. Each question below is one step of that life of a chunk, for
// each kind of view that engines make; the answer is one line: question, view, answer. A question
// runs in a process of its own, so that one which hangs is an answer too. Only wrong bytes make the
// program fail.
// --tmpfs puts the slots into a tmpfs of the program's own, whose huge pages do not depend on the
// machine's setting.
//
//     collapse_probe [--shmem-huge never|advise] [--tmpfs] [--timings]
#include <fcntl.h>
#include <linux/mount.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "pager/base/units.h"
#include "pager/fault/userfaultfd_abi.h"
#include "pager/fault/userfaultfd_doors.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace {

using weightpager::KiB;
using weightpager::MiB;

constexpr uint64_t chunk_bytes = 2 * MiB;
constexpr uint64_t page_bytes = 4 * KiB;
constexpr int wrong_bytes_status = 3;
constexpr char model_path[] = "collapse_probe.model";

[[noreturn]] void give_up(const char* what) {
  std::printf("cannot: %s: %s\n", what, std::strerror(errno));
  std::fflush(stdout);
  _exit(1);
}

std::string outcome(int result) {
  return result == 0 ? "done" : std::string(strerrorname_np(errno));
}

struct View {
  const char* name;
  int protection;
  int flags;
  bool is_writable() const { return (protection & PROT_WRITE) != 0; }
};

constexpr View views[] = {{"shared, read-only", PROT_READ, MAP_SHARED},
                          {"private, read-only", PROT_READ, MAP_PRIVATE},
                          {"private, writable", PROT_READ | PROT_WRITE, MAP_PRIVATE}};

/// The address of `length_bytes` of the memfd on the 2 MiB grid.
std::byte* map_on_grid(int fd, uint64_t length_bytes, int protection, int flags) {
  void* reserved = mmap(nullptr, length_bytes + chunk_bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) give_up("reserving addresses");
  const uint64_t grid =
      (reinterpret_cast<uint64_t>(reserved) + chunk_bytes - 1) & ~(chunk_bytes - 1);
  void* got =
      mmap(reinterpret_cast<void*>(grid), length_bytes, protection, flags | MAP_FIXED, fd, 0);
  if (got == MAP_FAILED) give_up("mapping the memfd");
  return static_cast<std::byte*>(got);
}

/// Through the first door that is open, before its handshake.
int open_userfaultfd() {
  for (const weightpager::fault::Door door : weightpager::fault::doors) {
    const int fd = weightpager::fault::open_door(door);
    if (fd >= 0) return fd;
  }
  give_up("userfaultfd");
}

/// A userfaultfd that watches one view, and the view.
class Watched {
 public:
  Watched(int memory_fd, uint64_t length_bytes, const View& view)
      : fd_(open_userfaultfd()), length_bytes_(length_bytes) {
    uffdio_api api = {.api = UFFD_API,
                      .features = UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM,
                      .ioctls = 0};
    if (ioctl(fd_, UFFDIO_API, &api) != 0) give_up("UFFDIO_API with minor faults of shared memory");
    address_ = map_on_grid(memory_fd, length_bytes, view.protection, view.flags);
    uffdio_register wanted = {};
    wanted.range = {reinterpret_cast<uint64_t>(address_), length_bytes};
    wanted.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR;
    registered_ = outcome(ioctl(fd_, UFFDIO_REGISTER, &wanted));
  }

  const std::string& registered() const { return registered_; }
  std::byte* address() const { return address_; }

  /// "missing", "minor", with "+write" for a store; "none" after a second without a message.
  std::string next_fault(uint64_t* offset_bytes = nullptr) const {
    pollfd ready = {fd_, POLLIN, 0};
    uffd_msg message;
    if (poll(&ready, 1, 1000) != 1 || read(fd_, &message, sizeof message) != sizeof message) {
      return "none";
    }
    const auto& fault = message.arg.pagefault;
    if (offset_bytes != nullptr) {
      *offset_bytes = fault.address - reinterpret_cast<uint64_t>(address_);
    }
    return std::string(fault.flags & UFFD_PAGEFAULT_FLAG_MINOR ? "minor" : "missing") +
           (fault.flags & UFFD_PAGEFAULT_FLAG_WRITE ? "+write" : "");
  }

  int collapse(uint64_t offset_bytes = 0) const {
    return madvise(address_ + offset_bytes, chunk_bytes, MADV_COLLAPSE);
  }

  /// Maps what the memfd has there; pages that the view has already are stepped over and counted.
  int continue_range(uint64_t offset_bytes, uint64_t length_bytes,
                     int* kept_pages = nullptr) const {
    uint64_t at = offset_bytes;
    while (at < offset_bytes + length_bytes) {
      uffdio_continue step = {};
      step.range = {reinterpret_cast<uint64_t>(address_) + at, offset_bytes + length_bytes - at};
      if (ioctl(fd_, UFFDIO_CONTINUE, &step) == 0) return 0;
      if (step.mapped > 0) {
        at += static_cast<uint64_t>(step.mapped);
      } else if (errno == EEXIST && kept_pages != nullptr) {
        ++*kept_pages;
        at += page_bytes;
      } else if (errno != EAGAIN) {
        return -1;
      }
    }
    return 0;
  }

  void wake() const {
    uffdio_range range = {reinterpret_cast<uint64_t>(address_), length_bytes_};
    ioctl(fd_, UFFDIO_WAKE, &range);
  }

  /// KiB of the view that are mapped by huge entries.
  uint64_t huge_kib() const {
    std::ifstream maps("/proc/self/smaps");
    char start[32];
    std::snprintf(start, sizeof start, "%" PRIx64 "-", reinterpret_cast<uint64_t>(address_));
    uint64_t kib = 0;
    bool is_ours = false;
    for (std::string line; std::getline(maps, line);) {
      const bool is_header = line.find('-') < 17 && line.find(':') > 17;
      if (is_header) is_ours = line.rfind(start, 0) == 0;
      if (is_ours &&
          (line.rfind("ShmemPmdMapped:", 0) == 0 || line.rfind("FilePmdMapped:", 0) == 0)) {
        kib += std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10);
      }
    }
    return kib;
  }

 private:
  int fd_;
  uint64_t length_bytes_;
  std::byte* address_ = nullptr;
  std::string registered_;
};

/// A file in a tmpfs that nobody else sees; needs CAP_SYS_ADMIN where it is mounted.
int file_in_own_tmpfs() {
  const int context = static_cast<int>(syscall(SYS_fsopen, "tmpfs", 0));
  if (syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "huge", "always", 0) != 0 ||
      syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    give_up("a tmpfs with huge=always");
  }
  const int mount = static_cast<int>(syscall(SYS_fsmount, context, 0, 0));
  const int file = openat(mount, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) give_up("a file in the tmpfs");
  return file;
}

bool g_is_in_own_tmpfs = false;

int new_file() {
  return g_is_in_own_tmpfs ? file_in_own_tmpfs() : memfd_create("slots", MFD_CLOEXEC);
}

/// One slot or more in a memfd, their alias, and a model on disk to fill them from.
class Memory {
 public:
  explicit Memory(uint64_t length_bytes = chunk_bytes, int advice = MADV_HUGEPAGE)
      : fd_(new_file()) {
    if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(length_bytes)) != 0) give_up("memfd");
    alias_ = map_on_grid(fd_, length_bytes, PROT_READ | PROT_WRITE, MAP_SHARED);
    madvise(alias_, length_bytes, advice);
    model_ = open(model_path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (model_ < 0) give_up("opening the model for direct reads");
  }

  int fd() const { return fd_; }
  std::byte* alias() const { return alias_; }
  void fill(uint64_t offset_bytes = 0) const {
    if (pread(model_, alias_ + offset_bytes, chunk_bytes, 0) != static_cast<ssize_t>(chunk_bytes)) {
      give_up("direct read into the memfd");
    }
  }
  /// A huge page of zeros. The kernel makes none out of nothing: one touch comes first.
  int make_huge(uint64_t offset_bytes = 0) const {
    *reinterpret_cast<volatile uint8_t*>(alias_ + offset_bytes) = 0;
    return madvise(alias_ + offset_bytes, chunk_bytes, MADV_COLLAPSE);
  }
  int punch(uint64_t offset_bytes = 0) const {
    return fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(offset_bytes), static_cast<off_t>(chunk_bytes));
  }

 private:
  int fd_ = -1;
  int model_ = -1;
  std::byte* alias_ = nullptr;
};

/// The engine: touches one byte in a thread of its own.
class Toucher {
 public:
  Toucher(std::byte* address, bool is_write) {
    thread_ = std::thread([this, address, is_write] {
      if (is_write) *reinterpret_cast<volatile uint8_t*>(address) = 0xee;
      value_ = *reinterpret_cast<volatile uint8_t*>(address);
      is_done_ = true;
    });
  }
  ~Toucher() { thread_.join(); }
  bool is_done_within(std::chrono::milliseconds time) const {
    for (auto left = time; !is_done_ && left.count() > 0; left -= std::chrono::milliseconds(1)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return is_done_;
  }
  bool is_done() const { return is_done_; }

 private:
  std::atomic<bool> is_done_{false};
  std::atomic<int> value_{0};
  std::thread thread_;
};

uint8_t model_byte(uint64_t offset_bytes) { return static_cast<uint8_t>(1 + offset_bytes % 251); }

/// Every page's first and last byte as in the model, but for a page that was written.
void check_bytes(const std::byte* address, uint64_t written_page = UINT64_MAX) {
  for (uint64_t page = 0; page < chunk_bytes / page_bytes; ++page) {
    const uint64_t last = (page + 1) * page_bytes - 1;
    const uint8_t first = page == written_page ? uint8_t{0xee} : model_byte(page * page_bytes);
    if (address[page * page_bytes] == std::byte{first} &&
        address[last] == std::byte{model_byte(last)}) {
      continue;
    }
    std::printf("WRONG BYTES at page %" PRIu64 "\n", page);
    std::fflush(stdout);
    _exit(wrong_bytes_status);
  }
}

/// Brings a filled chunk into the view the cheap way, else page by page; says which way it went.
std::string bring_in(const Watched& view) {
  if (view.collapse() == 0) return "COLLAPSE";
  return view.continue_range(0, chunk_bytes) == 0 ? "CONTINUE" : outcome(-1);
}

// --- the questions ---

std::string registers(const View& kind) {
  Memory memory;
  return Watched(memory.fd(), chunk_bytes, kind).registered();
}

std::string first_touch(const View& kind, bool is_filled) {
  Memory memory;
  if (is_filled) memory.fill();
  Watched view(memory.fd(), chunk_bytes, kind);
  Toucher engine(view.address(), kind.is_writable());
  const std::string fault = view.next_fault();
  if (!is_filled) memory.fill();
  bring_in(view);
  view.wake();
  // A store into a huge private mapping has the page brought in once more.
  while (!engine.is_done_within(std::chrono::milliseconds(100))) {
    if (view.next_fault() != "none") view.continue_range(0, chunk_bytes);
  }
  return fault;
}

std::string maps(const View& kind, bool is_huge, bool is_collapse) {
  Memory memory(chunk_bytes, is_huge ? MADV_HUGEPAGE : MADV_NORMAL);
  if (is_huge && memory.make_huge() != 0) return "no huge page: " + outcome(-1);
  memory.fill();
  Watched view(memory.fd(), chunk_bytes, kind);
  std::string answer;
  int result = is_collapse ? view.collapse() : view.continue_range(0, chunk_bytes);
  if (result != 0) {
    answer = outcome(result) + ", asked again: ";
    result = is_collapse ? view.collapse() : view.continue_range(0, chunk_bytes);
  }
  if (result != 0) return answer + outcome(result);
  const uint64_t huge_kib = view.huge_kib();
  check_bytes(view.address());
  return answer + "right bytes, " + std::to_string(huge_kib) + " KiB in huge entries";
}

std::string collapse_wakes(const View& kind) {
  Memory memory;
  memory.make_huge();
  memory.fill();
  Watched view(memory.fd(), chunk_bytes, kind);
  Toucher engine(view.address(), false);
  view.next_fault();
  if (view.collapse() != 0) {
    const std::string refusal = outcome(-1);
    view.continue_range(0, chunk_bytes);
    return refusal;
  }
  const bool woke = engine.is_done_within(std::chrono::milliseconds(200));
  view.wake();
  return woke                                             ? "yes"
         : engine.is_done_within(std::chrono::seconds(1)) ? "no, UFFDIO_WAKE does"
                                                          : "never";
}

std::string collapse_of_hole(const View& kind) {
  Memory memory;
  Watched view(memory.fd(), chunk_bytes, kind);
  const std::string result = outcome(view.collapse());
  if (result != "done") return result;
  return view.address()[0] == std::byte{0} ? "done: SILENT ZEROS" : "done: other bytes";
}

/// A store into a mapped chunk: what it costs the other pages, and where it went.
std::string store(const View& kind, bool is_collapse) {
  if (!kind.is_writable()) return "-";
  Memory memory;
  memory.make_huge();
  memory.fill();
  Watched view(memory.fd(), chunk_bytes, kind);
  if ((is_collapse ? view.collapse() : view.continue_range(0, chunk_bytes)) != 0)
    return outcome(-1);
  Toucher engine(view.address() + 7 * page_bytes, true);
  std::string faults;
  int kept_pages = 0;
  while (!engine.is_done_within(std::chrono::milliseconds(300))) {
    const std::string fault = view.next_fault();
    if (fault == "none") break;
    faults += fault + " ";
    view.continue_range(0, chunk_bytes, &kept_pages);
  }
  if (!engine.is_done()) return "hangs after " + faults;
  check_bytes(memory.alias());  // the memfd does not see it
  // Another page of the chunk: still there?
  Toucher neighbour(view.address() + 9 * page_bytes, false);
  if (!neighbour.is_done_within(std::chrono::milliseconds(300))) {
    faults += "neighbour: " + view.next_fault();
    view.continue_range(0, chunk_bytes, &kept_pages);
  }
  view.wake();
  check_bytes(view.address(), 7);
  return "copied on write, faults: " + (faults.empty() ? "none" : faults);
}

std::string collapse_beside_written(const View& kind) {
  if (!kind.is_writable()) return "-";
  Memory memory(2 * chunk_bytes);
  memory.fill();
  memory.make_huge(chunk_bytes);
  memory.fill(chunk_bytes);
  Watched view(memory.fd(), 2 * chunk_bytes, kind);
  view.continue_range(0, chunk_bytes);
  *reinterpret_cast<volatile uint8_t*>(view.address() + 7 * page_bytes) = 0xee;
  const std::string result = outcome(view.collapse(chunk_bytes));
  view.continue_range(chunk_bytes, chunk_bytes);
  check_bytes(view.address() + chunk_bytes);
  return result + ", " + std::to_string(view.huge_kib()) + " KiB in huge entries";
}

std::string evicts(const View& kind, bool is_dropped_from_view) {
  Memory memory;
  memory.make_huge();
  memory.fill();
  Watched view(memory.fd(), chunk_bytes, kind);
  const std::string way = bring_in(view);
  check_bytes(view.address());
  if (is_dropped_from_view) madvise(view.address(), chunk_bytes, MADV_DONTNEED);
  if (memory.punch() != 0) return "punch: " + outcome(-1);
  Toucher engine(view.address(), false);
  const std::string fault = view.next_fault();
  memory.fill();
  bring_in(view);
  view.wake();
  if (!engine.is_done_within(std::chrono::seconds(1))) return fault + ", then hangs";
  check_bytes(view.address());
  return way + ", then the next touch: " + fault;
}

/// A written page, after the memfd's page was punched away and filled again.
std::string written_page_survives(const View& kind) {
  if (!kind.is_writable()) return "-";
  Memory memory;
  memory.fill();
  Watched view(memory.fd(), chunk_bytes, kind);
  view.continue_range(0, chunk_bytes);
  *reinterpret_cast<volatile uint8_t*>(view.address() + 7 * page_bytes) = 0xee;
  memory.punch();
  Toucher written(view.address() + 7 * page_bytes, false);
  const bool is_there = written.is_done_within(std::chrono::milliseconds(300));
  Toucher other(view.address() + 9 * page_bytes, false);
  const std::string fault = view.next_fault();
  memory.fill();
  const std::string collapse = outcome(view.collapse());
  int kept_pages = 0;
  view.continue_range(0, chunk_bytes, &kept_pages);
  view.wake();
  if (!is_there) return "lost";
  check_bytes(view.address(), 7);
  return "yes; others: " + fault + "; refill: COLLAPSE " + collapse + ", CONTINUE keeps " +
         std::to_string(kept_pages) + " page";
}

std::string answer_from(const std::function<std::string()>& question);

/// A second process with a view of its own onto the same memfd.
std::string second_process(const View& kind) {
  Memory memory;
  memory.make_huge();
  memory.fill();
  Watched view(memory.fd(), chunk_bytes, kind);
  const std::string way = bring_in(view);
  int punched[2];
  int seen[2];
  if (pipe(punched) != 0 || pipe(seen) != 0) give_up("pipe");
  const auto client = [&] {
    Watched own(memory.fd(), chunk_bytes, kind);
    std::string answer;
    {
      Toucher engine(own.address(), false);
      answer = own.next_fault();
      answer += ", " + bring_in(own);
      own.wake();
    }
    check_bytes(own.address());
    char byte = 0;
    if (write(seen[1], &byte, 1) != 1 || read(punched[0], &byte, 1) != 1) give_up("pipe");
    Toucher engine(own.address(), false);
    answer += "; punched by the other: " + own.next_fault();
    memory.fill();
    bring_in(own);
    own.wake();
    return answer;
  };
  std::thread evictor([&] {
    char byte = 0;
    if (read(seen[0], &byte, 1) == 1) memory.punch();
    if (write(punched[1], &byte, 1) != 1) give_up("pipe");
  });
  const std::string answer = answer_from(client);
  evictor.join();
  return "first " + way + ", second " + answer;
}

std::string collapse_of_alias(bool is_filled) {
  Memory memory;
  if (is_filled) memory.fill();
  return outcome(madvise(memory.alias(), chunk_bytes, MADV_COLLAPSE));
}

/// The same once a view watches: the kernel must not fill holes behind its back.
std::string collapse_of_alias_under_view(bool is_filled) {
  Memory memory(chunk_bytes, MADV_NORMAL);
  Watched view(memory.fd(), chunk_bytes, views[0]);
  if (!is_filled) return outcome(memory.make_huge());
  memory.fill();
  return outcome(madvise(memory.alias(), chunk_bytes, MADV_COLLAPSE));
}

std::string is_huge_by_itself() {
  Memory memory;
  memory.fill();
  std::ifstream maps("/proc/self/smaps_rollup");
  for (std::string line; std::getline(maps, line);) {
    if (line.rfind("ShmemPmdMapped:", 0) != 0) continue;
    return std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10) >= 2048 ? "yes" : "no";
  }
  return "unknown";
}

// --- timings ---

using Clock = std::chrono::steady_clock;

void time_step(const char* what, const std::function<void(uint64_t)>& prepare,
               const std::function<int(uint64_t)>& step) {
  std::vector<double> microseconds;
  int refused = 0;
  for (uint64_t i = 0; i < 64; ++i) {
    prepare(i);
    const auto before = Clock::now();
    refused += step(i) != 0;
    const std::chrono::duration<double, std::micro> took = Clock::now() - before;
    microseconds.push_back(took.count());
  }
  std::sort(microseconds.begin(), microseconds.end());
  std::printf("%-58s median %8.2f us, best %8.2f, worst %8.2f%s\n", what, microseconds[32],
              microseconds[0], microseconds[63],
              refused == 0 ? "" : (", refused " + std::to_string(refused) + " of 64").c_str());
  std::fflush(stdout);
}

void timings() {
  const auto none = [](uint64_t) {};
  Memory memory(64 * chunk_bytes);
  const auto at = [](uint64_t i) { return i * chunk_bytes; };
  time_step("alias: one touch, COLLAPSE: a huge page of zeros", none,
            [&](uint64_t i) { return memory.make_huge(at(i)); });
  time_step("punch a huge page that nobody maps but the alias", none,
            [&](uint64_t i) { return memory.punch(at(i)); });
  time_step("alias: first store to each 4 KiB page", none, [&](uint64_t i) {
    for (uint64_t page = 0; page < chunk_bytes; page += page_bytes) {
      memory.alias()[at(i) + page] = std::byte{1};
    }
    return 0;
  });
  time_step("alias: COLLAPSE of 512 small pages (copies them)", none,
            [&](uint64_t i) { return memory.make_huge(at(i)); });
  time_step("direct read of 2 MiB into the huge page, one at a time", none, [&](uint64_t i) {
    memory.fill(at(i));
    return 0;
  });
  for (const View& kind : {views[0], views[2]}) {
    std::printf("-- view: %s\n", kind.name);
    Watched view(memory.fd(), 64 * chunk_bytes, kind);
    const auto drop = [&](uint64_t i) {
      return madvise(view.address() + at(i), chunk_bytes, MADV_DONTNEED);
    };
    time_step("COLLAPSE into the view, first time", none,
              [&](uint64_t i) { return view.collapse(at(i)); });
    time_step("DONTNEED of the view's huge entry", none, drop);
    time_step("COLLAPSE into the view, later", none,
              [&](uint64_t i) { return view.collapse(at(i)); });
    for (uint64_t i = 0; i < 64; ++i) drop(i);
    time_step("CONTINUE of 2 MiB, a huge page", none,
              [&](uint64_t i) { return view.continue_range(at(i), chunk_bytes); });
    time_step("DONTNEED of the view's 512 entries", none, drop);
    time_step("WAKE of nobody", none, [&](uint64_t) {
      view.wake();
      return 0;
    });
    for (uint64_t i = 0; i < 64; ++i) view.collapse(at(i));
    time_step("punch a huge page, mapped huge by alias and view", none,
              [&](uint64_t i) { return memory.punch(at(i)); });
    time_step("direct read of 2 MiB into what was punched", none, [&](uint64_t i) {
      memory.fill(at(i));
      return 0;
    });
    std::atomic<uint64_t> wanted{UINT64_MAX};
    std::atomic<uint64_t> touched{UINT64_MAX};
    std::thread engine([&] {
      for (uint64_t i = 0; i < 64; ++i) {
        while (wanted != i) std::this_thread::yield();
        (void)*reinterpret_cast<volatile uint8_t*>(view.address() + at(i));
        touched = i;
      }
    });
    time_step("touch, message, COLLAPSE, WAKE, touched", none, [&](uint64_t i) {
      wanted = i;
      view.next_fault();
      const int result = view.collapse(at(i));
      if (result != 0) view.continue_range(at(i), chunk_bytes);
      view.wake();
      while (touched != i) std::this_thread::yield();
      return result;
    });
    engine.join();
  }
}

// --- the frame ---

/// The answer of a process that asks, or how that process ended.
std::string answer_from(const std::function<std::string()>& question) {
  int answers[2];
  if (pipe(answers) != 0) give_up("pipe");
  const pid_t child = fork();
  if (child < 0) give_up("fork");
  if (child == 0) {
    alarm(60);
    const std::string answer = question();
    _exit(write(answers[1], answer.data(), answer.size()) == static_cast<ssize_t>(answer.size())
              ? 0
              : 1);
  }
  close(answers[1]);
  char text[512];
  const ssize_t length = read(answers[0], text, sizeof text);
  close(answers[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    return WTERMSIG(status) == SIGALRM ? "HANGS" : strsignal(WTERMSIG(status));
  }
  if (WEXITSTATUS(status) == wrong_bytes_status) return "WRONG BYTES";
  return length > 0 ? std::string(text, static_cast<size_t>(length)) : "no answer";
}

bool g_is_wrong = false;

void ask(const char* question, const char* view, const std::function<std::string()>& answer) {
  const std::string got = answer_from(answer);
  g_is_wrong = g_is_wrong || got.find("WRONG BYTES") != std::string::npos;
  std::printf("%-52s | %-18s | %s\n", question, view, got.c_str());
  std::fflush(stdout);
}

void ask_all() {
  ask("direct read into fresh memory makes a huge page", "-", is_huge_by_itself);
  ask("alias: COLLAPSE of a hole", "-", [] { return collapse_of_alias(false); });
  ask("alias: COLLAPSE after one touch", "-", [] { return outcome(Memory().make_huge()); });
  ask("alias: COLLAPSE after a direct read", "-", [] { return collapse_of_alias(true); });
  ask("alias: COLLAPSE after one touch, view registered", "-",
      [] { return collapse_of_alias_under_view(false); });
  ask("alias: COLLAPSE after a direct read, view registered", "-",
      [] { return collapse_of_alias_under_view(true); });
  for (const View& kind : views) {
    const auto row = [&](const char* question, const std::function<std::string()>& answer) {
      ask(question, kind.name, answer);
    };
    row("REGISTER missing and minor", [&] { return registers(kind); });
    row("touch of an absent chunk", [&] { return first_touch(kind, false); });
    row("touch of a chunk that only the memfd has", [&] { return first_touch(kind, true); });
    row("COLLAPSE of a hole in the view", [&] { return collapse_of_hole(kind); });
    row("COLLAPSE maps a huge page", [&] { return maps(kind, true, true); });
    row("COLLAPSE maps 512 small pages", [&] { return maps(kind, false, true); });
    row("CONTINUE maps a huge page", [&] { return maps(kind, true, false); });
    row("CONTINUE maps 512 small pages", [&] { return maps(kind, false, false); });
    row("COLLAPSE wakes who waits", [&] { return collapse_wakes(kind); });
    row("store after COLLAPSE", [&] { return store(kind, true); });
    row("store after CONTINUE", [&] { return store(kind, false); });
    row("COLLAPSE beside a written chunk", [&] { return collapse_beside_written(kind); });
    row("evict by DONTNEED and PUNCH_HOLE", [&] { return evicts(kind, true); });
    row("evict by PUNCH_HOLE alone", [&] { return evicts(kind, false); });
    row("written page survives PUNCH_HOLE", [&] { return written_page_survives(kind); });
    row("second process", [&] { return second_process(kind); });
  }
}

void make_model() {
  std::ofstream file(model_path, std::ios::binary);
  for (uint64_t at = 0; at < chunk_bytes; ++at) file.put(static_cast<char>(model_byte(at)));
}

/// The setting belongs to the whole machine: put back at the end.
class ShmemHuge {
 public:
  explicit ShmemHuge(const std::string& wanted) {
    std::string words;
    std::getline(std::ifstream(path), words);
    const size_t open = words.find('[');
    before_ = words.substr(open + 1, words.find(']') - open - 1);
    if (!wanted.empty()) std::ofstream(path) << wanted;
  }
  ~ShmemHuge() { std::ofstream(path) << before_; }

 private:
  static constexpr char path[] = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
  std::string before_;
};

}  // namespace

int main(int count, char** arguments) {
  std::string shmem_huge;
  bool is_timed = false;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--timings") {
      is_timed = true;
    } else if (argument == "--tmpfs") {
      g_is_in_own_tmpfs = true;
    } else if (argument == "--shmem-huge" && i + 1 < count) {
      shmem_huge = arguments[++i];
    } else {
      std::fprintf(stderr, "collapse_probe [--shmem-huge never|advise] [--tmpfs] [--timings]\n");
      return 2;
    }
  }
  make_model();
  {
    ShmemHuge setting(shmem_huge);
    if (is_timed) {
      timings();
    } else {
      ask_all();
    }
  }
  unlink(model_path);
  return g_is_wrong ? wrong_bytes_status : 0;
}
