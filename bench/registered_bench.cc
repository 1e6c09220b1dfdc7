// What it would save to register files, buffers or both with the ring (pager/io/uring_reader.cc,
// which registers neither): processor time of the thread that reads, for each GiB.
//
//     WP_BENCH_FILE=model.gguf build/release/bench/registered_bench
//
// Arguments: KiB per read, whether the buffers are huge pages. 16 MiB are in flight.
#include <benchmark/benchmark.h>
#include <liburing.h>
#include <sys/mman.h>

#include <cstdlib>
#include <ctime>
#include <vector>

#include "pager/base/anonymous_memory.h"
#include "pager/base/units.h"
#include "pager/io/model_file.h"

namespace weightpager {
namespace {

constexpr uint64_t pool_bytes = 256 * MiB;
constexpr uint64_t buffer_bytes = 64 * MiB;  // registered at once
constexpr uint64_t pass_bytes = 512 * MiB;
constexpr uint64_t flying_bytes = 16 * MiB;

double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

struct Registered {
  bool file = false;
  bool buffers = false;
};

class RegisteredRing {
 public:
  RegisteredRing() {
    io_uring_params params{};
    params.flags =
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_DEFER_TASKRUN;
    is_open_ = io_uring_queue_init_params(256, &ring_, &params) == 0;
  }
  ~RegisteredRing() {
    if (is_open_) io_uring_queue_exit(&ring_);
  }
  RegisteredRing(const RegisteredRing&) = delete;
  RegisteredRing& operator=(const RegisteredRing&) = delete;

  bool prepare(int fd, std::byte* pool, Registered what) {
    fd_ = what.file ? 0 : fd;
    pool_ = pool;
    what_ = what;
    std::vector<iovec> buffers;
    for (uint64_t at = 0; at < pool_bytes; at += buffer_bytes)
      buffers.push_back({pool + at, buffer_bytes});
    return is_open_ && (!what.file || io_uring_register_files(&ring_, &fd, 1) == 0) &&
           (!what.buffers || io_uring_register_buffers(&ring_, buffers.data(),
                                                       static_cast<unsigned>(buffers.size())) == 0);
  }

  /// Reads `pass_bytes` from `begin_bytes` of the file on. Returns whether all of it came.
  bool read(uint64_t begin_bytes, uint32_t length_bytes) {
    uint64_t started_bytes = 0;
    for (uint64_t done_bytes = 0; done_bytes < pass_bytes;) {
      for (; started_bytes < pass_bytes && started_bytes - done_bytes < flying_bytes;
           started_bytes += length_bytes) {
        start(begin_bytes + started_bytes, started_bytes % pool_bytes, length_bytes);
      }
      io_uring_submit_and_wait(&ring_, 1);
      io_uring_cqe* answer;
      while (io_uring_peek_cqe(&ring_, &answer) == 0) {
        if (answer->res != static_cast<int>(length_bytes)) return false;
        done_bytes += length_bytes;
        io_uring_cqe_seen(&ring_, answer);
      }
    }
    return true;
  }

 private:
  void start(uint64_t offset_bytes, uint64_t pool_at, uint32_t length_bytes) {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    if (what_.buffers) {
      io_uring_prep_read_fixed(entry, fd_, pool_ + pool_at, length_bytes, offset_bytes,
                               static_cast<int>(pool_at / buffer_bytes));
    } else {
      io_uring_prep_read(entry, fd_, pool_ + pool_at, length_bytes, offset_bytes);
    }
    if (what_.file) entry->flags |= IOSQE_FIXED_FILE;
  }

  io_uring ring_{};
  bool is_open_ = false;
  int fd_ = -1;
  std::byte* pool_ = nullptr;
  Registered what_;
};

void read_with(benchmark::State& state, Registered what) {
  const char* path = std::getenv("WP_BENCH_FILE");
  if (!path) return state.SkipWithError("set WP_BENCH_FILE to a file of 1 GiB or more");
  const auto file = io::ModelFile::open(path);
  if (!file || !file->is_direct() || file->size_bytes() < 2 * pass_bytes)
    return state.SkipWithError("a file of 1 GiB with direct reads is needed");
  auto memory = AnonymousMemory::make(pool_bytes + huge_page_bytes, "buffers", "");
  if (!memory) return state.SkipWithError(memory.error().message.c_str());
  auto* const pool = reinterpret_cast<std::byte*>(
      round_up(reinterpret_cast<uintptr_t>(memory->at(0)), huge_page_bytes));
  madvise(pool, pool_bytes, state.range(1) != 0 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  madvise(pool, pool_bytes, MADV_POPULATE_WRITE);
  RegisteredRing ring;
  if (!ring.prepare(file->fd(), pool, what)) return state.SkipWithError("refused (ulimit -l?)");

  static uint64_t at_bytes = 0;
  const double before = thread_seconds();
  for ([[maybe_unused]] auto pass : state) {
    if (at_bytes + pass_bytes > file->size_bytes()) at_bytes = 0;
    if (!ring.read(at_bytes, static_cast<uint32_t>(state.range(0) * KiB)))
      return state.SkipWithError("a read fell short");
    at_bytes += pass_bytes;
  }
  const double bytes = static_cast<double>(state.iterations() * pass_bytes);
  state.counters["cpu_ms/GiB"] = (thread_seconds() - before) * 1e3 / (bytes / GiB);
  state.counters["GB/s"] = benchmark::Counter(bytes / 1e9, benchmark::Counter::kIsRate);
}

void sizes_and_pages(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"KiB", "huge"})
      ->ArgsProduct({{128, 512, 2048}, {0, 1}})
      ->Unit(benchmark::kMillisecond)
      ->Iterations(1)
      ->UseRealTime();
}

BENCHMARK_CAPTURE(read_with, nothing, Registered{})->Apply(sizes_and_pages);
BENCHMARK_CAPTURE(read_with, file, Registered{.file = true})->Apply(sizes_and_pages);
BENCHMARK_CAPTURE(read_with, buffers, Registered{.buffers = true})->Apply(sizes_and_pages);
BENCHMARK_CAPTURE(read_with, both, Registered{true, true})->Apply(sizes_and_pages);

}  // namespace
}  // namespace weightpager
