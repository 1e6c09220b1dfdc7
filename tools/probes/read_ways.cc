#include "tools/probes/read_ways.h"

#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <utility>
#include <vector>

#include "pager/base/anonymous_memory.h"
#include "pager/base/median.h"
#include "pager/base/units.h"
#include "tools/probes/huge_memory.h"

namespace weightpager::tools {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// More than processors' caches hold.
constexpr uint32_t pool_chunks = 16;
constexpr size_t passes_min = 3;
constexpr uint64_t pool_bytes = pool_chunks * huge_page_bytes;

double processor_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

double seconds_since(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

}  // namespace

// Memory of one kind, in place and filled with zeros.
class ReadProbe::Pool {
 public:
  static Result<std::unique_ptr<Pool>> make(ReadMemory kind) {
    auto pool = std::make_unique<Pool>();
    Status made = kind == ReadMemory::huge_pages || kind == ReadMemory::registered
                      ? pool->take_huge_pages()
                      : pool->take_small_pages(kind == ReadMemory::locked);
    if (!made) return forward_error(std::move(made));
    pool->is_registered_ = kind == ReadMemory::registered;
    return pool;
  }

  std::byte* at(uint64_t offset_bytes) const { return begin_ + offset_bytes; }
  bool is_registered() const { return is_registered_; }

 private:
  Status take_small_pages(bool is_locked) {
    auto memory = AnonymousMemory::make(pool_bytes, "buffers", "close other programs");
    if (!memory) return forward_error(std::move(memory));
    small_ = std::move(*memory);
    begin_ = small_.at(0);
    madvise(begin_, pool_bytes, MADV_NOHUGEPAGE);
    std::fill_n(begin_, pool_bytes, std::byte{0});
    if (is_locked && mlock(begin_, pool_bytes) != 0)
      return fail("memory cannot be locked", "raise the limit: ulimit -l", errno);
    return {};
  }

  Status take_huge_pages() {
    auto memory = HugeMemory::create(pool_chunks);
    if (!memory) return forward_error(std::move(memory));
    if (memory->huge_bytes() < pool_bytes) {
      return fail("the kernel gives no huge pages",
                  "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
    }
    begin_ = memory->chunk(0);
    huge_ = std::make_unique<HugeMemory>(std::move(*memory));
    return {};
  }

  AnonymousMemory small_;
  std::unique_ptr<HugeMemory> huge_;
  std::byte* begin_ = nullptr;
  bool is_registered_ = false;
};

// One read at a time.
class ReadProbe::Ring {
 public:
  static Result<std::unique_ptr<Ring>> make() {
    auto it = std::make_unique<Ring>();
    if (const int status = io_uring_queue_init(1, &it->ring_, 0); status < 0) {
      return fail("io_uring is refused here", "look at sysctl kernel.io_uring_disabled", -status);
    }
    it->is_open_ = true;
    return it;
  }
  Ring() = default;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() {
    if (is_open_) io_uring_queue_exit(&ring_);
  }

  Status pin(std::byte* begin) {
    const iovec memory = {.iov_base = begin, .iov_len = pool_bytes};
    if (const int status = io_uring_register_buffers(&ring_, &memory, 1); status < 0)
      return fail("memory cannot be registered", "raise the limit: ulimit -l", -status);
    return {};
  }

  Status read(int fd, const Pool& pool, uint64_t pool_offset, uint64_t offset, uint32_t length) {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    if (pool.is_registered()) {
      io_uring_prep_read_fixed(entry, fd, pool.at(pool_offset), length, offset, 0);
    } else {
      io_uring_prep_read(entry, fd, pool.at(pool_offset), length, offset);
    }
    if (const int status = io_uring_submit_and_wait(&ring_, 1); status < 0)
      return fail("a read cannot be submitted", "look at `dmesg`", -status);
    io_uring_cqe* completion = nullptr;
    if (const int status = io_uring_wait_cqe(&ring_, &completion); status < 0)
      return fail("a read is not answered", "look at `dmesg`", -status);
    const int result = completion->res;
    io_uring_cqe_seen(&ring_, completion);
    if (result < 0) return fail("a read failed", "look at `dmesg`", -result);
    return {};
  }

 private:
  io_uring ring_ = {};
  bool is_open_ = false;
};

ReadProbe::ReadProbe(io::ModelFile file, OwnedFd buffered, std::unique_ptr<Ring> ring)
    : file_(std::move(file)), buffered_(std::move(buffered)), ring_(std::move(ring)) {}
ReadProbe::ReadProbe(ReadProbe&&) noexcept = default;
ReadProbe::~ReadProbe() = default;

Result<ReadProbe> ReadProbe::open(const std::string& path) {
  auto file = io::ModelFile::open(path);
  if (!file) return forward_error(std::move(file));
  if (!file->is_direct()) return fail(path + ": no direct reads on this filesystem");
  OwnedFd buffered(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!buffered.is_open()) return fail(path + ": cannot be opened", "", errno);
  auto ring = Ring::make();
  if (!ring) return forward_error(std::move(ring));
  return ReadProbe(std::move(*file), std::move(buffered), std::move(*ring));
}

Result<ReadProbe::Pool*> ReadProbe::pool_of(ReadMemory memory) {
  std::unique_ptr<Pool>& pool = pools_[memory];
  if (pool != nullptr) return pool.get();
  auto made = Pool::make(memory);
  if (!made) return forward_error(std::move(made));
  if ((*made)->is_registered()) {
    if (Status pinned = ring_->pin((*made)->at(0)); !pinned)
      return forward_error(std::move(pinned));
  }
  pool = std::move(*made);
  return pool.get();
}

Status ReadProbe::read_pass(int fd, Pool& pool, uint32_t length_bytes) {
  uint64_t pool_offset = 0;
  for (uint64_t offset = 0; offset + length_bytes <= file_bytes(); offset += length_bytes) {
    if (pool_offset + length_bytes > pool_bytes) pool_offset = 0;
    if (Status read = ring_->read(fd, pool, pool_offset, offset, length_bytes); !read) return read;
    pool_offset += length_bytes;
  }
  return {};
}

uint64_t ReadProbe::cached_bytes() const {
  void* const mapped = mmap(nullptr, file_bytes(), PROT_READ, MAP_SHARED, buffered_.get(), 0);
  if (mapped == MAP_FAILED) return 0;
  std::vector<unsigned char> pages((file_bytes() + os_page_bytes - 1) / os_page_bytes);
  const bool is_known = mincore(mapped, file_bytes(), pages.data()) == 0;
  munmap(mapped, file_bytes());
  if (!is_known) return 0;
  const auto cached =
      std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
  return static_cast<uint64_t>(cached) * os_page_bytes;
}

Result<WaySpeed> ReadProbe::read(const ReadWay& way, uint32_t length_bytes, milliseconds time) {
  const auto pool = pool_of(way.memory);
  if (!pool) return tl::make_unexpected(pool.error());
  const int fd = way.is_direct ? file_.fd() : buffered_.get();
  const auto empty_cache = [&] {
    posix_fadvise(buffered_.get(), 0, 0, POSIX_FADV_DONTNEED);
    return cached_bytes();
  };
  if (way.is_direct) empty_cache();
  // The first pass of a warm way fills the page cache and does not count.
  if (!way.is_direct && !way.is_cold) {
    if (Status filled = read_pass(fd, **pool, length_bytes); !filled)
      return forward_error(std::move(filled));
  }
  double took_s = 0;
  double processor_s = 0;
  std::vector<double> passes_s;
  while (took_s < std::chrono::duration<double>(time).count() || passes_s.size() < passes_min) {
    if (way.is_cold && empty_cache() > file_bytes() / 20)
      return fail("the page cache keeps the file", "it is in use, or on a filesystem in memory");
    const auto begin = steady_clock::now();
    const double worked_s = processor_seconds();
    if (Status read = read_pass(fd, **pool, length_bytes); !read)
      return forward_error(std::move(read));
    passes_s.push_back(seconds_since(begin));
    took_s += passes_s.back();
    processor_s += processor_seconds() - worked_s;
  }
  const uint64_t bytes_of_pass = file_bytes() / length_bytes * length_bytes;
  return WaySpeed{.bytes_per_s = static_cast<double>(bytes_of_pass) / median(passes_s),
                  .processor_share = processor_s / took_s,
                  .cached_bytes = cached_bytes()};
}

}  // namespace weightpager::tools
