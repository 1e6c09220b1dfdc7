// A small engine that keeps its weights in memory of malloc's, started by allocation.sh beside it,
// first by itself and then under the interposer. It checks what each call promises, and prints what
// must be the same both times.
//
//     allocating_engine CALL FILE      FILE: at least 40 MiB; exit 0: all as promised
//
// SPILLED=1 in the environment: large blocks must be spilled ones, which begin at pages. libc's do
// not.
#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t mib = size_t{1} << 20;
bool is_spilled_expected = false;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "engine: %s (errno %d: %s)\n", what.c_str(), errno, std::strerror(errno));
  std::_Exit(1);
}

void expect(bool is_fine, const std::string& what) {
  if (!is_fine) fail(what);
}

bool begins_at_page(const void* block) { return reinterpret_cast<uintptr_t>(block) % 4096 == 0; }

void expect_large(const void* block, const char* what) {
  expect(block != nullptr, what);
  if (is_spilled_expected) expect(begins_at_page(block), std::string(what) + ": not spilled");
}

// A sum that depends on places.
uint64_t sum_of(const void* bytes, size_t length) {
  const auto* const at = static_cast<const unsigned char*>(bytes);
  uint64_t sum = 14695981039346656037u;
  for (size_t i = 0; i + 8 <= length; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, at + i, sizeof word);
    sum = (sum ^ word) * 1099511628211u;
  }
  return sum;
}

void fill(void* bytes, size_t length, uint64_t seed) {
  auto* const at = static_cast<unsigned char*>(bytes);
  for (size_t i = 0; i + 8 <= length; i += 8) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(at + i, &seed, sizeof seed);
  }
}

void expect_zero(const void* bytes, size_t length, const char* what) {
  const auto* const at = static_cast<const unsigned char*>(bytes);
  const bool is_zero = length == 0 || (at[0] == 0 && std::memcmp(at, at + 1, length - 1) == 0);
  expect(is_zero, what);
}

// ---- Each function of the allocator ----

int functions() {
  void* block = malloc(8 * mib);
  expect_large(block, "malloc");
  expect(malloc_usable_size(block) >= 8 * mib, "malloc_usable_size");
  fill(block, 8 * mib, 1);
  free(block);

  for (int again = 0; again < 3; ++again) {
    block = calloc(1024, 9 * 1024);
    expect_large(block, "calloc");
    expect_zero(block, 9 * mib, "calloc of what was used before");
    std::memset(block, 0xa5, 9 * mib);
    free(block);
  }
  volatile size_t huge = SIZE_MAX / 2;
  errno = 0;
  expect(calloc(huge, 3) == nullptr && errno == ENOMEM, "calloc of too much");
  errno = 0;
  expect(malloc(huge) == nullptr && errno == ENOMEM, "malloc of too much");
  errno = 0;
  expect(reallocarray(nullptr, huge, 3) == nullptr && errno == ENOMEM, "reallocarray of too much");
  block = reallocarray(nullptr, 1024, 8 * 1024);
  expect_large(block, "reallocarray");
  free(block);

  for (size_t alignment = 8; alignment <= 16 * mib; alignment *= 2) {
    for (const size_t bytes : {size_t{100}, 5 * mib + 1}) {
      expect(posix_memalign(&block, alignment, bytes) == 0, "posix_memalign");
      expect(reinterpret_cast<uintptr_t>(block) % alignment == 0, "posix_memalign: alignment");
      if (bytes > mib) expect_large(block, "posix_memalign");
      std::memset(block, 1, bytes);
      free(block);
      block = aligned_alloc(alignment, bytes);
      expect(block != nullptr && reinterpret_cast<uintptr_t>(block) % alignment == 0,
             "aligned_alloc");
      free(block);
      block = memalign(alignment, bytes);
      expect(block != nullptr && reinterpret_cast<uintptr_t>(block) % alignment == 0, "memalign");
      free(block);
    }
  }
  void* kept = &block;
  block = kept;
  expect(posix_memalign(&block, 3, 8 * mib) == EINVAL && block == kept, "posix_memalign by 3");
  expect(posix_memalign(&block, 4, 8 * mib) == EINVAL && block == kept, "posix_memalign by 4");
  for (void* const page : {valloc(8 * mib), pvalloc(8 * mib - 5), valloc(5), pvalloc(5)}) {
    expect(page != nullptr && begins_at_page(page), "valloc, pvalloc");
    free(page);
  }
  void* const none = malloc(0);
  expect(none != nullptr, "malloc(0)");
  free(none);
  free(nullptr);
  expect(malloc_usable_size(nullptr) == 0, "malloc_usable_size(nullptr)");
  errno = 17;
  block = malloc(8 * mib);
  free(block);
  expect(errno == 17, "malloc and free changed errno");

  auto numbers = std::make_unique<std::vector<double>>(2 * mib);
  expect_large(numbers->data(), "operator new");
  for (double number : *numbers) expect(number == 0, "a vector's elements");
  return 0;
}

// ---- realloc from and to both sides of the limit ----

int resizing() {
  const size_t sizes[] = {100,     mib,         5 * mib,  64 * 1024, 33 * mib,
                          6 * mib, 6 * mib + 1, 40 * mib, 1};
  size_t length = 1;
  auto* block = static_cast<unsigned char*>(malloc(length));
  block[0] = 77;
  std::vector<unsigned char> model = {77};
  for (int round = 0; round < 4; ++round) {
    for (const size_t bytes : sizes) {
      block = static_cast<unsigned char*>(realloc(block, bytes));
      expect(block != nullptr, "realloc");
      if (bytes >= 4 * mib) expect_large(block, "realloc");
      const size_t both = std::min(length, bytes);
      expect(std::memcmp(block, model.data(), both) == 0, "realloc: other bytes");
      model.resize(bytes);
      fill(block, bytes, bytes + static_cast<size_t>(round));
      if (bytes < 8) block[0] = static_cast<unsigned char>(round);
      std::memcpy(model.data(), block, bytes);
      length = bytes;
    }
  }
  expect(realloc(block, 0) == nullptr, "realloc(block, 0)");
  block = static_cast<unsigned char*>(malloc(8 * mib));
  expect(realloc(block, 0) == nullptr, "realloc(large block, 0)");

  // What is last grows where it is.
  block = static_cast<unsigned char*>(malloc(8 * mib));
  std::memset(block, 3, 8 * mib);
  volatile size_t too_much = SIZE_MAX / 2;
  errno = 0;
  expect(realloc(block, too_much) == nullptr && errno == ENOMEM, "realloc to too much");
  expect(block[8 * mib - 1] == 3, "realloc to too much lost the block");
  free(block);
  return 0;
}

// ---- Reading ----

struct File {
  int fd = -1;
  const char* path = nullptr;
  size_t size_bytes = 0;
};

void print(const char* what, ssize_t count, const void* bytes, size_t length, off_t position) {
  std::printf("%s: %zd, %016lx, at %ld\n", what, count,
              static_cast<unsigned long>(sum_of(bytes, length)), static_cast<long>(position));
}

void read_by_descriptor(const File& file, unsigned char* room, size_t room_bytes) {
  const auto position = [&] { return lseek(file.fd, 0, SEEK_CUR); };
  for (const off_t start : {off_t{0}, off_t{12345}, static_cast<off_t>(file.size_bytes - 9 * mib),
                            static_cast<off_t>(file.size_bytes + 5)}) {
    for (const size_t shift : {size_t{0}, size_t{777}, mib}) {
      std::memset(room, 0, room_bytes);
      lseek(file.fd, start, SEEK_SET);
      ssize_t got = read(file.fd, room + shift, 20 * mib);
      print("read", got, room, room_bytes, position());
      got = read(file.fd, room + shift, 20 * mib);
      print("read on", got, room, room_bytes, position());
      got = pread(file.fd, room + shift, 20 * mib, start);
      print("pread", got, room, room_bytes, position());
      iovec parts[] = {{room + shift, 1000},
                       {room + shift + 4000, 7 * mib},
                       {nullptr, 0},
                       {room + 12 * mib, 9 * mib}};
      std::memset(room, 0, room_bytes);
      got = preadv(file.fd, parts, 4, start);
      print("preadv", got, room, room_bytes, position());
      lseek(file.fd, start, SEEK_SET);
      got = readv(file.fd, parts, 4);
      print("readv", got, room, room_bytes, position());
      std::memset(room, 0, room_bytes);
      got = preadv2(file.fd, parts, 4, -1, 0);
      print("preadv2", got, room, room_bytes, position());
      got = preadv2(file.fd, parts, 4, start, RWF_HIPRI);
      print("preadv2 with a flag", got, room, room_bytes, position());
    }
  }
}

void read_by_stream(const File& file, unsigned char* room, size_t room_bytes) {
  FILE* const stream = fopen(file.path, "rb");
  expect(stream != nullptr, "fopen");
  const auto show = [&](const char* what, size_t count) {
    print(what, static_cast<ssize_t>(count), room, room_bytes, ftello(stream));
    std::printf("  end %d, error %d, next %d\n", feof(stream), ferror(stream), fgetc(stream));
  };
  std::memset(room, 0, room_bytes);
  expect(fread(room, 1, 24, stream) == 24, "fread of a header");
  show("fread of a header", 24);
  show("fread", fread(room + 100, 4, 3 * mib, stream));
  ungetc(7, stream);
  show("fread after ungetc", fread(room, 1, 6 * mib, stream));
  show("fread_unlocked", fread_unlocked(room + 3, 3, 2 * mib, stream));
  fseeko(stream, static_cast<off_t>(file.size_bytes - 5 * mib - 3), SEEK_SET);
  show("fread to the end", fread(room, 7, 2 * mib, stream));
  show("fread behind the end", fread(room, 1, 6 * mib, stream));
  expect(fclose(stream) == 0, "fclose");
}

int reading(const File& file) {
  constexpr size_t room_bytes = 24 * mib;
  auto* const room = static_cast<unsigned char*>(malloc(room_bytes));
  expect_large(room, "malloc");
  read_by_descriptor(file, room, room_bytes);
  read_by_stream(file, room, room_bytes);

  // What is no file of weights is read as ever: a pipe, a device.
  int ends[2];
  expect(pipe(ends) == 0, "pipe");
  expect(write(ends[1], "pipe", 4) == 4, "write");
  close(ends[1]);
  std::memset(room, 0, room_bytes);
  print("a pipe", read(ends[0], room, room_bytes), room, room_bytes, 0);
  const int device = open("/dev/zero", O_RDONLY);
  std::memset(room, 9, room_bytes);
  print("a device", read(device, room, 5 * mib), room, room_bytes, 0);
  const int written = open("/dev/null", O_WRONLY);
  errno = 0;
  expect(read(written, room, room_bytes) == -1 && errno == EBADF, "read of what is written");
  errno = 0;
  expect(read(-1, room, room_bytes) == -1 && errno == EBADF, "read of nothing");
  errno = 0;
  expect(pread(file.fd, room, room_bytes, -5) == -1 && errno == EINVAL, "pread in front of it");
  free(room);
  return 0;
}

// Threads that share a descriptor: each byte goes to one of them.
int shared_position(const File& file) {
  std::vector<std::thread> threads;
  std::vector<uint64_t> sums(4);
  std::atomic<size_t> all{0};
  std::vector<unsigned char> expected(file.size_bytes);
  expect(
      pread(file.fd, expected.data(), expected.size(), 0) == static_cast<ssize_t>(expected.size()),
      "pread");
  for (size_t self = 0; self < sums.size(); ++self) {
    threads.emplace_back([&, self] {
      auto* const room = static_cast<unsigned char*>(malloc(5 * mib));
      while (true) {
        const ssize_t got = read(file.fd, room, 5 * mib);
        expect(got >= 0, "read");
        if (got == 0) break;
        all += static_cast<size_t>(got);
        sums[self] += sum_of(room, static_cast<size_t>(got));
      }
      free(room);
    });
  }
  for (auto& thread : threads) thread.join();
  expect(all == file.size_bytes, "threads read other than all bytes");
  uint64_t sum = 0;
  for (uint64_t it : sums) sum += it;
  uint64_t expected_sum = 0;
  for (size_t at = 0; at < file.size_bytes; at += 5 * mib)
    expected_sum += sum_of(expected.data() + at, std::min(5 * mib, file.size_bytes - at));
  expect(sum == expected_sum, "threads read other bytes");
  return 0;
}

// ---- Threads ----

struct Kept {
  unsigned char* begin;
  size_t length;
  uint64_t seed;  // 0: the file's bytes from `offset` on
  size_t offset;
};

void check(const Kept& it, const File& file) {
  unsigned char expected[64];
  for (size_t at = 0; at + sizeof expected <= it.length; at += 512 * 1024 + 64) {
    if (it.seed == 0) {
      expect(pread(file.fd, expected, sizeof expected, static_cast<off_t>(it.offset + at)) ==
                 sizeof expected,
             "pread");
    } else {
      std::memset(expected, static_cast<int>((it.seed + at / 64) & 0xff), sizeof expected);
    }
    if (std::memcmp(it.begin + at, expected, sizeof expected) != 0) fail("a block has other bytes");
  }
}

void write_all(Kept& it) {
  for (size_t at = 0; at + 64 <= it.length; at += 512 * 1024 + 64)
    std::memset(it.begin + at, static_cast<int>((it.seed + at / 64) & 0xff), 64);
}

void use_at_random(const File& file, uint32_t seed, int steps) {
  std::mt19937 random(seed);
  std::vector<Kept> kept;
  const auto length = [&] { return 4 * mib + random() % (60 * mib); };
  for (int i = 0; i < steps; ++i) {
    const uint32_t what = random() % 8;
    if (kept.size() < 5 && (what < 3 || kept.empty())) {
      Kept it{nullptr, length(), 1 + random() % 1000, 0};
      it.begin = static_cast<unsigned char*>(what == 0 ? calloc(1, it.length) : malloc(it.length));
      expect(it.begin != nullptr, "malloc");
      if (what == 0) expect_zero(it.begin + random() % (3 * mib), 4096, "calloc");
      write_all(it);
      kept.push_back(it);
      continue;
    }
    Kept& it = kept[random() % kept.size()];
    check(it, file);
    if (what < 5) {
      const size_t bytes = random() % 4 == 0 ? 1 * mib : length();
      it.begin = static_cast<unsigned char*>(realloc(it.begin, bytes));
      expect(it.begin != nullptr, "realloc");
      it.length = std::min(it.length, bytes);
      check(it, file);
      it.length = bytes;
      if (it.seed == 0) it.seed = 5;
      write_all(it);
    } else if (what < 6) {
      it.length = std::min(it.length, file.size_bytes / 2);
      it.offset = random() % (file.size_bytes / 2);
      it.seed = 0;
      expect(pread(file.fd, it.begin, it.length, static_cast<off_t>(it.offset)) ==
                 static_cast<ssize_t>(it.length),
             "pread");
    } else {
      free(it.begin);
      std::swap(it, kept.back());
      kept.pop_back();
    }
  }
  for (const Kept& it : kept) free(it.begin);
}

int threads(const File& file) {
  std::vector<std::thread> running;
  for (uint32_t self = 1; self <= 8; ++self)
    running.emplace_back([&, self] { use_at_random(file, self, 30); });
  for (auto& thread : running) thread.join();
  return 0;
}

// ---- Child processes ----

int forked(const File& file) {
  auto* const weights = static_cast<unsigned char*>(malloc(20 * mib));
  expect(read(file.fd, weights, 20 * mib) == static_cast<ssize_t>(20 * mib), "read");
  const uint64_t sum = sum_of(weights, 20 * mib);
  std::atomic<bool> is_over{false};
  std::thread beside([&] {
    while (!is_over) use_at_random(file, 3, 5);
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    expect(child >= 0, "fork");
    if (child == 0) {
      expect(sum_of(weights, 20 * mib) == sum, "a child sees other bytes");
      auto* const own = static_cast<unsigned char*>(malloc(8 * mib));
      expect(own != nullptr, "malloc in a child");
      expect(pread(file.fd, own, 8 * mib, 0) == static_cast<ssize_t>(8 * mib), "pread in a child");
      expect(std::memcmp(own, weights, 8 * mib) == 0, "a child reads other bytes");
      auto* grown = static_cast<unsigned char*>(realloc(weights, 30 * mib));
      expect(grown != nullptr && std::memcmp(grown, own, 8 * mib) == 0, "realloc in a child");
      expect(sum_of(grown, 20 * mib) == sum, "realloc in a child lost bytes");
      free(own);
      free(grown);
      void* const zeros = calloc(1, 8 * mib);
      expect_zero(zeros, 8 * mib, "calloc in a child");
      _exit(0);
    }
    int status = 0;
    expect(waitpid(child, &status, 0) == child && status == 0, "the child failed");
    expect(sum_of(weights, 20 * mib) == sum, "the parent sees other bytes");
  }
  is_over = true;
  beside.join();
  free(weights);
  return 0;
}

// Blocks that live for a moment, many times: prints how long a block takes, for allocation.sh.
int short_lives(const File&) {
  const auto pass = [](int count) {
    timespec begin{};
    timespec end{};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < count; ++i) {
      const size_t length = (4 + static_cast<size_t>(i) % 4 * 8) * mib;
      auto* const block = static_cast<unsigned char*>(malloc(length));
      std::memset(block, i, length);
      free(block);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (static_cast<double>(end.tv_sec - begin.tv_sec) * 1e9 +
            static_cast<double>(end.tv_nsec - begin.tv_nsec)) /
           count;
  };
  pass(50);
  double best = 1e18;
  for (int i = 0; i < 9; ++i) best = std::min(best, pass(100));
  std::fprintf(stderr, "%.0f ns a block\n", best);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  is_spilled_expected = std::getenv("SPILLED") != nullptr;
  const std::string call = argv[1];
  File file{open(argv[2], O_RDONLY), argv[2], 0};
  struct stat facts;
  expect(file.fd >= 0 && fstat(file.fd, &facts) == 0, "open");
  file.size_bytes = static_cast<size_t>(facts.st_size);
  if (call == "functions") return functions();
  if (call == "resizing") return resizing();
  if (call == "reading") return reading(file);
  if (call == "shared-position") return shared_position(file);
  if (call == "threads") return threads(file);
  if (call == "fork") return forked(file);
  if (call == "short-lives") return short_lives(file);
  if (call == "not-spilled") return begins_at_page(malloc(8 * mib)) ? 1 : 0;
  return 2;
}
