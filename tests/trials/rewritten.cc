// A program whose model is changed under it, in every way in which files are changed, before,
// between and during its passes: what it maps afterwards has to be the file as it is then, and
// nothing else. What it mapped before may show either version of each page for a while, or SIGBUS,
// and in the end the file as it is.
//
//     trials_rewritten WAY CHANGE MOMENT FILE OTHER      WAY: mmap, stream, or a mapper's name,
//                                                        for the C library
//     trials_rewritten check FILE
//
// Exit 0: right. 77: this filesystem has no such change. Says on stdout whether there was a SIGBUS.
#include <linux/fs.h>
#include <setjmp.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <map>
#include <thread>

#include "tests/trials/weights.h"
#include "weightpager/weightpager.h"

namespace {

using namespace trials;
using Bytes = std::vector<unsigned char>;

constexpr int no_such_change = 77;
constexpr uint64_t window_bytes = 32u << 20;

Bytes read_all(int fd) {
  struct stat facts;
  expect(fstat(fd, &facts) == 0, "fstat");
  Bytes bytes(static_cast<size_t>(facts.st_size));
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t got = pread(fd, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    expect(got > 0, "pread");
    at += static_cast<size_t>(got);
  }
  return bytes;
}

Bytes read_file(const char* path) {
  const File file = open_file(path);
  Bytes bytes = read_all(file.fd);
  close(file.fd);
  return bytes;
}

void write_all(int fd, const Bytes& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = std::min(bytes.size() - at, piece_bytes);
    const ssize_t put = pwrite(fd, bytes.data() + at, length, static_cast<off_t>(at));
    expect(put > 0, "pwrite");
    at += static_cast<size_t>(put);
  }
}

// ---- Ways of changing a file ----

struct Change {
  const char* path;
  const char* other_path;
  const Bytes& other;
};

int open_to_write(const Change& it, int flags = 0) {
  const int fd = open(it.path, O_RDWR | flags);
  expect(fd >= 0, "open to write");
  return fd;
}

void copy_over(const Change& it) {
  const int fd = open_to_write(it, O_TRUNC);
  write_all(fd, it.other);
  close(fd);
}

void rename_over(const Change& it) {
  const std::string made = std::string(it.path) + ".new";
  const int fd = open(made.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  expect(fd >= 0, "open");
  write_all(fd, it.other);
  close(fd);
  expect(rename(made.c_str(), it.path) == 0, "rename");
}

void cut_and_write(const Change& it) {
  const int fd = open_to_write(it);
  expect(ftruncate(fd, static_cast<off_t>(it.other.size() / 2)) == 0, "ftruncate");
  write_all(fd, it.other);
  close(fd);
}

void write_one_byte(const Change& it) {
  const int fd = open_to_write(it);
  const size_t at = it.other.size() / 2 + 77;
  unsigned char byte = 0;
  expect(pread(fd, &byte, 1, static_cast<off_t>(at)) == 1, "pread");
  byte ^= 0x55;
  expect(pwrite(fd, &byte, 1, static_cast<off_t>(at)) == 1, "pwrite");
  close(fd);
}

void store_through_mapping(const Change& it) {
  const int fd = open_to_write(it);
  void* const bytes = mmap(nullptr, it.other.size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  expect(bytes != MAP_FAILED, "mmap to write");
  std::memcpy(bytes, it.other.data(), it.other.size());
  munmap(bytes, it.other.size());
  close(fd);
}

void punch_hole(const Change& it) {
  const int fd = open_to_write(it);
  const int done =
      fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8 << 20, (9 << 20) + page_bytes);
  close(fd);
  if (done != 0) _exit(no_such_change);
}

void clone(const Change& it) {
  const int fd = open_to_write(it);
  const int from = open(it.other_path, O_RDONLY);
  const int done = ioctl(fd, FICLONE, from);
  close(from);
  close(fd);
  if (done != 0) _exit(no_such_change);
}

void touch_only(const Change& it) {
  expect(utimensat(AT_FDCWD, it.path, nullptr, 0) == 0, "touch");
}

void set_time_back(const Change& it) {
  const int fd = open_to_write(it);
  struct stat before;
  expect(fstat(fd, &before) == 0, "fstat");
  write_all(fd, it.other);
  const timespec times[] = {before.st_atim, before.st_mtim};
  expect(futimens(fd, times) == 0, "futimens");
  close(fd);
}

const std::map<std::string, void (*)(const Change&)> changes = {
    {"cp", copy_over},
    {"rename", rename_over},
    {"truncate", cut_and_write},
    {"byte", write_one_byte},
    {"store", store_through_mapping},
    {"punch", punch_hole},
    {"reflink", clone},
    {"touch", touch_only},
    {"set-back", set_time_back},
};

// ---- What a mapping shows ----

thread_local sigjmp_buf after_signal;
volatile sig_atomic_t has_seen_signal = 0;

void touch_or_leave(const unsigned char* address) {
  if (sigsetjmp(after_signal, 1) == 0) (void)touch(address);
}

/// Whether the page is one of the two, or SIGBUS; `is_new` says whether it is the second or SIGBUS.
bool is_either(const unsigned char* page, size_t length, const unsigned char* before,
               const unsigned char* after, bool& is_new) {
  if (sigsetjmp(after_signal, 1) != 0) return true;
  unsigned char seen[page_bytes];
  std::memcpy(seen, page, length);
  // Of a page that is just being written some bytes are of either.
  if (std::memcmp(seen, after, length) == 0) return true;
  is_new = false;
  for (size_t i = 0; i < length; ++i) {
    if (seen[i] != before[i] && seen[i] != after[i] && seen[i] != 0) return false;
  }
  return true;
}

/// Whether all pages are those of `after` (or SIGBUS); none may be any other's.
bool check_older(const unsigned char* bytes, const Bytes& before, const Bytes& after) {
  bool is_new = true;
  for (size_t at = 0; at < after.size(); at += page_bytes) {
    const size_t length = std::min(page_bytes, after.size() - at);
    if (!is_either(bytes + at, length, &before[at], &after[at], is_new)) {
      fail("the older mapping shows what never was in the file, at " + std::to_string(at));
    }
  }
  return is_new;
}

void check_newer(const unsigned char* bytes, const Bytes& now, const char* which) {
  for (size_t at = 0; at < now.size(); at += page_bytes) {
    const size_t length = std::min(page_bytes, now.size() - at);
    if (std::memcmp(bytes + at, &now[at], length) != 0) {
      fail(std::string(which) + " shows other bytes than the file has, at " + std::to_string(at));
    }
  }
}

/// A new process, which is another guest where a server has the window.
void check_in_new_process(const char* program, const char* path) {
  std::string name = program, check = "check", file = path;
  char* const arguments[] = {name.data(), check.data(), file.data(), nullptr};
  pid_t pid = 0;
  int status = 0;
  expect(posix_spawn(&pid, program, nullptr, nullptr, arguments, environ) == 0 &&
             waitpid(pid, &status, 0) == pid,
         "posix_spawn");
  if (status != 0) fail("a new process sees other bytes than the file has");
}

// ---- Ways of using it ----

struct Mapper {
  std::function<const unsigned char*(const char*)> map;
};

Mapper kernels_mapper() {
  return {[](const char* path) {
    const File file = open_file(path);
    const unsigned char* const bytes = trials::map(file);
    close(file.fd);
    return bytes;
  }};
}

Mapper librarys_mapper(const char* mapper) {
  const weightpager_options options = {
      .struct_bytes = sizeof options, .window_bytes = window_bytes, .mapper = mapper, .listens = 0};
  weightpager_pager* pager = nullptr;
  if (weightpager_open(&options, &pager) != 0) fail(weightpager_error());
  return {[pager](const char* path) {
    uint64_t length_bytes = 0;
    const void* const bytes = weightpager_map(pager, path, &length_bytes);
    if (bytes == nullptr) fail(weightpager_error());
    return static_cast<const unsigned char*>(bytes);
  }};
}

int use_mappings(const Mapper& mapper, const Change& it, void (*change)(const Change&),
                 const std::string& moment) {
  const File file = open_file(it.path);
  const Bytes before = read_all(file.fd);
  const unsigned char* const older = mapper.map(it.path);
  if (moment == "between") check_newer(older, before, "the first mapping");
  std::atomic<bool> is_over{false};
  std::thread toucher;
  std::atomic<size_t> touched{0};
  if (moment == "during") {
    toucher = std::thread([&] {
      for (size_t at = 0; !is_over; at = (at + 17 * page_bytes) % before.size()) {
        touch_or_leave(older + at);
        ++touched;
      }
    });
    while (touched < 500) sched_yield();
  }
  change(it);
  const unsigned char* const newer = mapper.map(it.path);
  const Bytes now = read_file(it.path);
  check_newer(newer, now, "the newer mapping");
  check_in_new_process("/proc/self/exe", it.path);
  check_newer(newer, now, "the newer mapping, in its second pass,");
  is_over = true;
  if (toucher.joinable()) toucher.join();
  // The file that it was mapped from, whatever has its name now.
  const Bytes mapped = read_all(file.fd);
  while (!check_older(older, before, mapped)) usleep(10'000);
  check_newer(newer, now, "the newer mapping, in its third pass,");
  return 0;
}

/// A pass; empty if it failed.
Bytes stream_pass(weightpager_stream* stream, const std::function<void()>& in_the_middle) {
  Bytes bytes;
  const uint32_t layers = weightpager_stream_layers(stream, nullptr);
  for (uint32_t layer = 0; layer < layers; ++layer) {
    if (layer == layers / 2) in_the_middle();
    uint64_t length_bytes = 0;
    const void* const got = weightpager_stream_acquire(stream, layer, &length_bytes);
    if (got == nullptr) return {};
    const auto* const begin = static_cast<const unsigned char*>(got);
    bytes.insert(bytes.end(), begin, begin + length_bytes);
    weightpager_stream_release(stream, layer);
  }
  return bytes;
}

weightpager_stream* open_stream(const char* path, size_t size_bytes) {
  std::vector<weightpager_layer> layers;
  for (size_t at = 0; at < size_bytes; at += 2 << 20) {
    layers.push_back({"", at, std::min<size_t>(2 << 20, size_bytes - at)});
  }
  const weightpager_stream_options options = {.struct_bytes = sizeof options,
                                              .layer_count = static_cast<uint32_t>(layers.size()),
                                              .window_bytes = window_bytes,
                                              .layers = layers.data()};
  weightpager_stream* stream = nullptr;
  if (weightpager_stream_open(path, &options, &stream) != 0) fail(weightpager_error());
  return stream;
}

/// Each pass is one version as a whole, or it has failed with a reason.
int use_stream(const Change& it, void (*change)(const Change&), const std::string& moment) {
  const File file = open_file(it.path);
  const Bytes before = read_all(file.fd);
  weightpager_stream* const stream = open_stream(it.path, before.size());
  const auto nothing = [] {};
  const auto change_now = [&] { change(it); };
  std::vector<Bytes> passes;
  if (moment == "between") passes.push_back(stream_pass(stream, nothing));
  if (moment != "during") change_now();
  passes.push_back(
      stream_pass(stream, moment == "during" ? std::function<void()>(change_now) : nothing));
  passes.push_back(stream_pass(stream, nothing));
  const Bytes now = read_all(file.fd);
  for (const Bytes& pass : passes) {
    if (pass.empty() && std::strlen(weightpager_error()) == 0) fail("a failure without a reason");
    if (!pass.empty() && pass != before && pass != now) fail("a pass of two versions");
  }
  weightpager_stream_close(stream);
  const Bytes named = read_file(it.path);
  weightpager_stream* const again = open_stream(it.path, named.size());
  if (stream_pass(again, nothing) != named) fail("a stream opened anew has other bytes");
  weightpager_stream_close(again);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) {
    check_newer(kernels_mapper().map(argv[2]), read_file(argv[2]), "the mapping");
    return 0;
  }
  if (argc != 6 || changes.count(argv[2]) == 0) return 2;
  struct sigaction action = {};
  action.sa_handler = [](int signal) {
    has_seen_signal = 1;
    siglongjmp(after_signal, signal);
  };
  action.sa_flags = SA_NODEFER;
  sigaction(SIGBUS, &action, nullptr);
  const Bytes other = read_file(argv[5]);
  const Change change = {.path = argv[4], .other_path = argv[5], .other = other};
  const std::string way = argv[1];
  const int status = way == "stream"
                         ? use_stream(change, changes.at(argv[2]), argv[3])
                         : use_mappings(way == "mmap" ? kernels_mapper() : librarys_mapper(argv[1]),
                                        change, changes.at(argv[2]), argv[3]);
  if (has_seen_signal != 0) std::puts("SIGBUS");
  return status;
}
