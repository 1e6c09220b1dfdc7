// An engine that lives a full life: it forks, is signalled, loses threads, unmaps what others wait
// for, finds its files replaced. The scripts beside it start it without weightpager (what it
// expects is what the kernel does) and with it.
//
//     trials_engine TRIAL FILE [OTHER FILE]        exit 0: all as with mmap
#include <dlfcn.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include "tests/trials/weights.h"

namespace {

using namespace trials;

struct Trial {
  const File& file;
  const char* path;
  const char* other_path;
  const char* program;
};

// ---- What a touch does ----

thread_local sigjmp_buf after_signal;
thread_local volatile sig_atomic_t is_touching = 0;

void leave_touch(int signal) {
  if (is_touching != 0) siglongjmp(after_signal, signal);
  _exit(100);
}

void catch_memory_signals() {
  struct sigaction action = {};
  action.sa_handler = leave_touch;
  action.sa_flags = SA_NODEFER;
  sigaction(SIGBUS, &action, nullptr);
  sigaction(SIGSEGV, &action, nullptr);
}

/// The signal that touching raises, or 0 and the byte.
int signal_of_touch(const unsigned char* address, unsigned char* byte) {
  const int signal = sigsetjmp(after_signal, 1);
  if (signal == 0) {
    is_touching = 1;
    *byte = touch(address);
  }
  is_touching = 0;
  return signal;
}

int wait_for_child(pid_t pid) {
  int status = 0;
  expect(pid > 0 && waitpid(pid, &status, 0) == pid, "waitpid");
  return status;
}

/// Threads that touch pages all over the file until told to stop, checking each byte.
class Touchers {
 public:
  Touchers(const File& file, const unsigned char* bytes, unsigned count) {
    for (unsigned seed = 0; seed < count; ++seed) {
      threads_.emplace_back([this, &file, bytes, seed] {
        std::mt19937_64 random(seed);
        while (!is_over_) {
          const size_t at = random() % file.size_bytes;
          unsigned char expected = 0;
          expect(pread(file.fd, &expected, 1, static_cast<off_t>(at)) == 1, "pread");
          if (touch(bytes + at) != expected) fail("wrong byte at " + std::to_string(at));
          ++touches_;
        }
      });
    }
  }
  ~Touchers() {
    is_over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  void await_touches(size_t count) const {
    const size_t goal = touches_ + count;
    while (touches_ < goal) usleep(1000);
  }
  pthread_t first() { return threads_.front().native_handle(); }

 private:
  std::atomic<bool> is_over_{false};
  std::atomic<size_t> touches_{0};
  std::vector<std::thread> threads_;
};

// ---- Places ----

int plain(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  check_all(it.file, bytes, 3);
  unmap(bytes, it.file.size_bytes);
  return 0;
}

/// Gives absent weights to system calls: a file, a pipe and a socket. As with mmap, no call fails.
int system_calls(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  int pair[2];
  expect(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
  const int copy = open(it.other_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  expect(copy >= 0, "open");
  std::vector<unsigned char> got(page_bytes);
  for (size_t at = 0; at + page_bytes <= it.file.size_bytes; at += 3 << 20) {
    expect(send(pair[0], bytes + at, page_bytes, 0) == static_cast<ssize_t>(page_bytes), "send");
    expect(recv(pair[1], got.data(), page_bytes, MSG_WAITALL) == static_cast<ssize_t>(page_bytes),
           "recv");
    check_bytes(it.file, got.data() - at, at, at + page_bytes);
    const size_t next = at + (1 << 20) + 100;
    if (next + page_bytes > it.file.size_bytes) break;
    expect(pwrite(copy, bytes + next, page_bytes, 0) == static_cast<ssize_t>(page_bytes), "write");
    expect(pread(copy, got.data(), page_bytes, 0) == static_cast<ssize_t>(page_bytes), "read");
    check_bytes(it.file, got.data() - next, next, next + page_bytes);
  }
  return 0;
}

/// From now on a system call is refused to all threads of this process.
void refuse_everywhere(unsigned call) {
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(filter), filter};
  expect(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
  expect(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0,
         "a filter for all threads");
}

/// Loads, locks itself down, computes: it needs no system call for that but those of its check.
int locked_down(const Trial& it) {
  std::vector<unsigned char> expected(it.file.size_bytes);
  expect(pread(it.file.fd, expected.data(), expected.size(), 0) ==
             static_cast<ssize_t>(expected.size()),
         "pread");
  const unsigned char* bytes = map(it.file);
  check_all(it.file, bytes);
  // By then nothing is being read.
  usleep(100'000);
  refuse_everywhere(static_cast<unsigned>(std::stoul(it.other_path)));
  for (int pass = 0; pass < 3; ++pass) {
    if (std::memcmp(bytes, expected.data(), expected.size()) != 0) fail("wrong bytes");
  }
  return 0;
}

/// How long a core dump of this process would be at most, as the kernel and gdb reckon: private
/// memory that was or could be written to, and shared memory without a name, but for what is left
/// out of it.
size_t core_bytes() {
  FILE* const list = fopen("/proc/self/smaps", "r");
  expect(list != nullptr, "open smaps");
  size_t sum_bytes = 0, size_kib = 0, anonymous_kib = 0;
  bool is_counted = false;
  char line[4096];
  while (fgets(line, sizeof line, list) != nullptr) {
    char mode[5] = {};
    unsigned long inode = 0;
    if (sscanf(line, "%*x-%*x %4s %*x %*s %lu", mode, &inode) == 2) {
      const bool is_deleted = strstr(line, "(deleted)") != nullptr;
      is_counted = mode[3] == 's' ? is_deleted : mode[1] == 'w' && inode == 0;
    }
    sscanf(line, "Size: %zu", &size_kib);
    sscanf(line, "Anonymous: %zu", &anonymous_kib);
    if (strncmp(line, "VmFlags:", 8) != 0 || strstr(line, " dd") != nullptr) continue;
    if (anonymous_kib > 0 || is_counted) sum_bytes += size_kib << 10;
  }
  fclose(list);
  return sum_bytes;
}

/// A core dump has what is the engine's own, what it wrote to its weights as well, and neither the
/// window nor what it was reserved.
int core_is_small(const Trial& it) {
  const size_t before_bytes = core_bytes();
  const unsigned char* bytes = map(it.file);
  check_all(it.file, bytes, 2);
  // Threads have stacks.
  constexpr size_t more_bytes_max = size_t{256} << 20;
  const size_t after_bytes = core_bytes();
  if (after_bytes > before_bytes + more_bytes_max) {
    fail("a core dump would be longer by MiB: " +
         std::to_string((after_bytes - before_bytes) >> 20));
  }
  void* const own =
      mmap(nullptr, it.file.size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, it.file.fd, 0);
  expect(own != MAP_FAILED, "mmap");
  auto* const written = static_cast<unsigned char*>(own) + (9 << 20);
  *written = static_cast<unsigned char>(~*written);
  expect(core_bytes() > after_bytes, "what was written is not in a core dump");
  return 0;
}

/// Sends a byte more than it has: which a sanitizer finds, in the function of libc's that is
/// called.
int send_too_much(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  check_all(it.file, bytes);
  const std::vector<unsigned char> own(page_bytes);
  // Unknown to the compiler, which would warn.
  const volatile size_t length = own.size() + 1;
  int ends[2];
  expect(pipe(ends) == 0, "pipe");
  return write(ends[1], own.data(), length) > 0 ? 0 : 2;
}

/// Writes absent weights to where they are in their own file, by each call that can. The file's
/// lock is held meanwhile, which whoever reads the file past the page cache needs, too.
int write_into_itself(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  const int own = open(it.path, O_WRONLY);
  expect(own >= 0 && link(it.path, it.other_path) == 0, "open and link");
  const int linked = open(it.other_path, O_WRONLY);
  FILE* const stream = fopen(it.other_path, "r+");
  expect(linked >= 0 && stream != nullptr, "open the link");
  constexpr size_t length = (size_t{2} << 20) + 100;
  using Write = ssize_t (*)(int, FILE*, const iovec*, off_t);
  const Write writes[] = {
      [](int fd, FILE*, const iovec* parts, off_t at) {
        return lseek(fd, at, SEEK_SET) < 0 ? -1 : write(fd, parts->iov_base, length);
      },
      [](int fd, FILE*, const iovec* parts, off_t at) {
        return pwrite(fd, parts->iov_base, length, at);
      },
      [](int fd, FILE*, const iovec* parts, off_t at) {
        return lseek(fd, at, SEEK_SET) < 0 ? -1 : writev(fd, parts, 2);
      },
      [](int fd, FILE*, const iovec* parts, off_t at) { return pwritev(fd, parts, 2, at); },
      [](int fd, FILE*, const iovec* parts, off_t at) { return pwritev2(fd, parts, 2, at, 0); },
      [](int, FILE* to, const iovec* parts, off_t at) {
        expect(fseek(to, at, SEEK_SET) == 0, "fseek");
        return static_cast<ssize_t>(fwrite(parts->iov_base, 1, length, to));
      },
      [](int, FILE* to, const iovec* parts, off_t at) {
        expect(fseek(to, at, SEEK_SET) == 0, "fseek");
        return static_cast<ssize_t>(fwrite_unlocked(parts->iov_base, 1, length, to));
      },
  };
  size_t at = (size_t{3} << 20) + 12345;
  for (const Write write_at : writes) {
    for (const int fd : {own, linked}) {
      auto* const from = const_cast<unsigned char*>(bytes) + at;
      const iovec parts[] = {{from, 4097}, {from + 4097, length - 4097}};
      const ssize_t done = write_at(fd, stream, parts, static_cast<off_t>(at));
      if (done != static_cast<ssize_t>(length)) fail("written: " + std::to_string(done));
      at += size_t{3} << 20;
    }
  }
  expect(at + length <= it.file.size_bytes, "the file is too short for this trial");
  expect(fclose(stream) == 0, "fclose");
  check_all(it.file, bytes);
  return 0;
}

/// Saves over the file that it has mapped: what is cut off cannot be read any more, and no zeros
/// take its place.
int save_over_itself(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  const int own = open(it.path, O_WRONLY | O_TRUNC);
  expect(own >= 0, "open");
  expect(write(own, bytes, it.file.size_bytes) == -1 && errno == EFAULT, "write of what is gone");
  struct stat facts;
  expect(fstat(own, &facts) == 0 && facts.st_size == 0, "something was written");
  return 0;
}

// ---- Children ----

int fork_under_load(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  Touchers touchers(it.file, bytes, 3);
  for (int round = 0; round < 8; ++round) {
    touchers.await_touches(20);
    const pid_t pid = fork();
    if (pid == 0) {
      check_all(it.file, bytes);
      _exit(0);
    }
    if (wait_for_child(pid) != 0) fail("the child saw other bytes");
  }
  return 0;
}

int fork_of_fork(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  check_all(it.file, bytes);
  const pid_t pid = fork();
  if (pid == 0) {
    const unsigned char* own = map(it.file);
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      check_all(it.file, bytes);
      check_all(it.file, own);
      _exit(0);
    }
    check_all(it.file, own);
    _exit(wait_for_child(grandchild) == 0 ? 0 : 1);
  }
  if (wait_for_child(pid) != 0) fail("a child saw other bytes");
  check_all(it.file, bytes);
  return 0;
}

int vfork_and_exec(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  Touchers touchers(it.file, bytes, 2);
  for (int round = 0; round < 5; ++round) {
    const pid_t pid = vfork();
    if (pid == 0) {
      execl(it.program, it.program, "plain", it.path, nullptr);
      _exit(99);
    }
    if (wait_for_child(pid) != 0) fail("the program started by vfork and exec failed");
  }
  check_all(it.file, bytes);
  return 0;
}

int spawn(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  Touchers touchers(it.file, bytes, 2);
  std::string program = it.program, trial = "plain", path = it.path;
  char* const arguments[] = {program.data(), trial.data(), path.data(), nullptr};
  for (int round = 0; round < 5; ++round) {
    pid_t pid = 0;
    expect(posix_spawn(&pid, it.program, nullptr, nullptr, arguments, environ) == 0, "posix_spawn");
    if (wait_for_child(pid) != 0) fail("the program started by posix_spawn failed");
  }
  check_all(it.file, bytes);
  return 0;
}

/// exec while other threads wait: the new program starts with a window of its own.
int exec_under_load(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  auto* touchers = new Touchers(it.file, bytes, 3);
  touchers->await_touches(20);
  execl(it.program, it.program, "plain", it.path, nullptr);
  fail("exec");
}

// ---- Threads ----

/// Threads are cancelled in the middle of a load that waits for its chunk.
int cancelled_threads(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  struct Arguments {
    const unsigned char* bytes;
    size_t size_bytes;
    std::atomic<size_t> touches{0};
  };
  for (int round = 0; round < 30; ++round) {
    Arguments arguments{bytes, it.file.size_bytes};
    pthread_t thread;
    const auto run = [](void* given) -> void* {
      auto* a = static_cast<Arguments*>(given);
      pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
      for (size_t at = 0;; at = (at + (2 << 20) + page_bytes) % a->size_bytes) {
        touch(a->bytes + at);
        a->touches.fetch_add(1, std::memory_order_relaxed);
      }
      return nullptr;
    };
    expect(pthread_create(&thread, nullptr, run, &arguments) == 0, "pthread_create");
    while (arguments.touches < 5) usleep(100);
    expect(pthread_cancel(thread) == 0, "pthread_cancel");
    void* result = nullptr;
    expect(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED, "pthread_join");
  }
  check_all(it.file, bytes);
  return 0;
}

/// main leaves by exit() while other threads wait for chunks.
int exit_while_others_wait(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  auto* touchers = new Touchers(it.file, bytes, 6);
  touchers->await_touches(50);
  std::exit(0);
}

/// Whether a thread of this process has ended: its process waits for the others, it is a zombie.
bool has_ended(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');  // the state is behind it
  return name_end != std::string::npos && line.compare(name_end, 3, ") Z") == 0;
}

/// main's thread ends first; another one reads on and ends the process.
int main_thread_ends_first(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  static const unsigned char* static_bytes;
  static File static_file;
  static_bytes = bytes;
  static_file = it.file;
  std::thread([] {
    while (!has_ended(getpid())) usleep(1000);
    check_all(static_file, static_bytes, 2);
    _exit(0);
  }).detach();
  pthread_exit(nullptr);
}

/// The pager's thread cannot be killed alone: the whole process dies of it, nothing reads zeros.
int pager_thread_killed(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  check_all(it.file, bytes);
  const std::string tasks = "/proc/self/task";
  for (int thread_id = getpid(); thread_id < getpid() + 1000; ++thread_id) {
    char name[32] = {};
    FILE* comm = std::fopen((tasks + "/" + std::to_string(thread_id) + "/comm").c_str(), "r");
    if (comm == nullptr) continue;
    const bool has_name = std::fgets(name, sizeof name, comm) != nullptr;
    std::fclose(comm);
    // The second: where the pager is in another process.
    const bool is_pagers =
        std::strcmp(name, "wp-pager\n") == 0 || std::strcmp(name, "wp-attached\n") == 0;
    if (has_name && is_pagers) {
      syscall(SYS_tgkill, getpid(), thread_id, SIGKILL);
      check_all(it.file, bytes, 1000);
    }
  }
  fail("there is no thread of the pager");
}

// ---- Signals ----

std::atomic<size_t> signals_taken{0};

int hundred_thousand_signals(const Trial& it) {
  constexpr size_t signals = 100'000;
  struct sigaction action = {};
  action.sa_handler = [](int) { signals_taken.fetch_add(1, std::memory_order_relaxed); };
  // Real-time signals are queued: each that is sent is taken.
  sigaction(SIGRTMIN, &action, nullptr);
  const unsigned char* bytes = map(it.file);
  const pthread_t toucher = pthread_self();
  std::thread storm([&] {
    for (size_t sent = 0; sent < signals;) {
      if (pthread_kill(toucher, SIGRTMIN) == 0) {
        ++sent;
      } else {
        sched_yield();  // the queue is full
      }
    }
  });
  for (size_t at = 0; signals_taken < signals; at = (at + page_bytes) % it.file.size_bytes) {
    touch(bytes + at);
  }
  storm.join();
  check_all(it.file, bytes);
  return 0;
}

/// Runs until the file named by the third argument is there; the script stops and continues it.
int until_told(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  Touchers touchers(it.file, bytes, 4);
  while (access(it.other_path, F_OK) != 0) check_all(it.file, bytes);
  return 0;
}

// ---- Mappings ----

/// mremap and mprotect while others wait: refused or done, but never other bytes.
int remap_under_load(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  auto* address = const_cast<unsigned char*>(bytes);
  {
    Touchers touchers(it.file, bytes, 3);
    for (int round = 0; round < 20; ++round) {
      touchers.await_touches(5);
      expect(mprotect(address, it.file.size_bytes, PROT_READ) == 0, "mprotect to what it is");
      void* same = mremap(address, it.file.size_bytes, it.file.size_bytes, 0);
      expect(same == address, "mremap to the same size");
    }
  }
  void* shrunk = mremap(address, it.file.size_bytes, 10 << 20, 0);
  expect(shrunk == address, "mremap that shrinks");
  check_bytes(it.file, bytes, 0, 10 << 20);
  return 0;
}

/// PROT_NONE is no access, and readable again shows the file again.
int protect_none(const Trial& it) {
  catch_memory_signals();
  const unsigned char* bytes = map(it.file);
  auto* address = const_cast<unsigned char*>(bytes);
  check_bytes(it.file, bytes, 0, 4 << 20);
  unsigned char byte = 0;
  expect(mprotect(address + (2 << 20), 8 << 20, PROT_NONE) == 0, "mprotect to PROT_NONE");
  expect(signal_of_touch(bytes + (3 << 20), &byte) == SIGSEGV, "PROT_NONE, touched before");
  expect(signal_of_touch(bytes + (9 << 20), &byte) == SIGSEGV, "PROT_NONE, absent");
  expect(mprotect(address + (2 << 20), 8 << 20, PROT_READ) == 0, "mprotect to PROT_READ");
  check_all(it.file, bytes);
  return 0;
}

/// What others wait for is unmapped under them: SIGSEGV, no zeros, no hang.
int unmap_under_waiters(const Trial& it) {
  catch_memory_signals();
  constexpr size_t hole_begin = (20 << 20) + 3 * page_bytes;
  constexpr size_t hole_bytes = 9 << 20;
  for (int round = 0; round < 10; ++round) {
    const unsigned char* bytes = map(it.file);
    std::vector<std::thread> threads;
    std::atomic<int> begun{0};
    for (unsigned seed = 0; seed < 4; ++seed) {
      threads.emplace_back([&, seed] {
        std::mt19937_64 random(seed);
        for (;;) {
          const size_t at = hole_begin + random() % hole_bytes;
          unsigned char byte = 0, expected = 0;
          ++begun;
          const int signal = signal_of_touch(bytes + at, &byte);
          if (signal == SIGSEGV) return;
          expect(signal == 0, "another signal than SIGSEGV");
          expect(pread(it.file.fd, &expected, 1, static_cast<off_t>(at)) == 1, "pread");
          if (byte != expected) fail("wrong byte at " + std::to_string(at));
        }
      });
    }
    while (begun < 10 * round) sched_yield();
    unmap(bytes + hole_begin, hole_bytes);
    for (std::thread& thread : threads) thread.join();
    check_bytes(it.file, bytes, 0, hole_begin);
    check_bytes(it.file, bytes, hole_begin + hole_bytes, it.file.size_bytes);
    unmap(bytes, it.file.size_bytes);
  }
  return 0;
}

int hundred_mappings(const Trial& it) {
  std::vector<const unsigned char*> mappings(100);
  for (const unsigned char*& bytes : mappings) bytes = map(it.file);
  for (size_t i = 0; i < mappings.size(); ++i) {
    // A different twentieth of the file in each, and all of it in a few.
    const size_t begin = it.file.size_bytes / 20 * (i % 20) / page_bytes * page_bytes;
    check_bytes(it.file, mappings[i], begin,
                std::min(begin + it.file.size_bytes / 20, it.file.size_bytes));
    if (i % 25 == 0) check_all(it.file, mappings[i]);
  }
  for (const unsigned char* bytes : mappings) unmap(bytes, it.file.size_bytes);
  return 0;
}

int two_models(const Trial& it) {
  const File other = open_file(it.other_path);
  const unsigned char* a = map(it.file);
  const unsigned char* b = map(other);
  Touchers touchers(it.file, a, 2);
  Touchers other_touchers(other, b, 2);
  check_all(it.file, a, 2);
  check_all(other, b, 2);
  return 0;
}

/// The engine proper is a library that main's program loads (plug-ins, Python's extensions).
int loaded_library(const Trial& it) {
  void* library = dlopen(it.other_path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(dlerror());
  auto* run = reinterpret_cast<int (*)(const char*)>(dlsym(library, "trials_library_run"));
  expect(run != nullptr, "dlsym");
  expect(run(it.path) == 0, "the library's engine");
  expect(dlclose(library) == 0, "dlclose");
  return 0;
}

// ---- Files that change ----

/// Another file takes the name: the mapping goes on with the old one.
int replaced_file(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  check_bytes(it.file, bytes, 0, 4 << 20);
  expect(rename(it.other_path, it.path) == 0, "rename");
  check_all(it.file, bytes, 2);
  return 0;
}

/// The file's name is gone, or another's: children go on with the old file, too.
int check_in_child(const Trial& it, const unsigned char* bytes) {
  const pid_t pid = fork();
  if (pid == 0) {
    check_all(it.file, bytes);
    _exit(0);
  }
  const int status = wait_for_child(pid);
  if (status != 0) fail("the child could not read, status " + std::to_string(status));
  check_all(it.file, bytes);
  return 0;
}

/// The file may be read by the user only that the engine was when it mapped it.
int rights_dropped_then_fork(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  check_bytes(it.file, bytes, 0, 4 << 20);
  // A part is unmapped, which must not come back.
  unmap(bytes + (30 << 20), 2 << 20);
  constexpr uid_t nobody = 65534;
  expect(setgroups(0, nullptr) == 0 && setgid(nobody) == 0 && setuid(nobody) == 0, "setuid");
  expect(open(it.path, O_RDONLY) < 0 && errno == EACCES, "the file can still be opened");
  const pid_t pid = fork();
  if (pid == 0) {
    check_bytes(it.file, bytes, 0, 30 << 20);
    check_bytes(it.file, bytes, 32 << 20, it.file.size_bytes);
    catch_memory_signals();
    unsigned char byte = 0;
    expect(signal_of_touch(bytes + (31 << 20), &byte) == SIGSEGV, "a touch of what is unmapped");
    _exit(0);
  }
  const int status = wait_for_child(pid);
  if (status != 0) fail("the child could not read, status " + std::to_string(status));
  check_bytes(it.file, bytes, 0, 30 << 20);
  return 0;
}

int replaced_file_in_child(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  expect(rename(it.other_path, it.path) == 0, "rename");
  return check_in_child(it, bytes);
}

int deleted_file(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  expect(unlink(it.path) == 0, "unlink");
  check_all(it.file, bytes, 2);
  return 0;
}

int deleted_file_in_child(const Trial& it) {
  const unsigned char* bytes = map(it.file);
  expect(unlink(it.path) == 0, "unlink");
  return check_in_child(it, bytes);
}

/// Pages behind the new end: SIGBUS, or the old bytes where they were in memory. Never others.
int truncated_file(const Trial& it) {
  catch_memory_signals();
  std::vector<unsigned char> before(it.file.size_bytes);
  expect(pread(it.file.fd, before.data(), before.size(), 0) == static_cast<ssize_t>(before.size()),
         "pread");
  const unsigned char* bytes = map(it.file);
  check_bytes(it.file, bytes, 0, 3 << 20);
  constexpr size_t end_bytes = 20 << 20;
  expect(truncate(it.path, end_bytes) == 0, "truncate");
  size_t refused = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t at = 0; at < before.size(); at += page_bytes) {
      unsigned char byte = 0;
      const int signal = signal_of_touch(bytes + at, &byte);
      if (signal == 0 && byte == before[at]) continue;
      if (signal != SIGBUS) fail("wrong byte or signal at " + std::to_string(at));
      if (at < end_bytes) fail("SIGBUS before the file's end, at " + std::to_string(at));
      ++refused;
    }
  }
  expect(refused > 0, "nothing behind the end was refused");
  return 0;
}

/// As above with the end inside a chunk: what is before the end stays readable.
int truncated_inside_a_chunk(const Trial& it) {
  catch_memory_signals();
  const unsigned char* bytes = map(it.file);
  constexpr size_t end_bytes = (21 << 20) + 5 * page_bytes;
  expect(truncate(it.path, end_bytes) == 0, "truncate");
  check_bytes(it.file, bytes, 0, end_bytes);
  unsigned char byte = 0;
  expect(signal_of_touch(bytes + (23 << 20), &byte) == SIGBUS, "a touch behind the end");
  return 0;
}

const std::map<std::string, std::function<int(const Trial&)>> trials_by_name = {
    {"plain", plain},
    {"system-calls", system_calls},
    {"locked-down", locked_down},
    {"core", core_is_small},
    {"send-too-much", send_too_much},
    {"write-into-itself", write_into_itself},
    {"save-over-itself", save_over_itself},
    {"fork", fork_under_load},
    {"fork-of-fork", fork_of_fork},
    {"vfork", vfork_and_exec},
    {"spawn", spawn},
    {"exec", exec_under_load},
    {"cancel", cancelled_threads},
    {"exit", exit_while_others_wait},
    {"main-thread-ends", main_thread_ends_first},
    {"pager-thread-killed", pager_thread_killed},
    {"signals", hundred_thousand_signals},
    {"until-told", until_told},
    {"remap", remap_under_load},
    {"protect-none", protect_none},
    {"unmap", unmap_under_waiters},
    {"hundred-mappings", hundred_mappings},
    {"two-models", two_models},
    {"library", loaded_library},
    {"replaced", replaced_file},
    {"replaced-in-child", replaced_file_in_child},
    {"rights-dropped", rights_dropped_then_fork},
    {"deleted", deleted_file},
    {"deleted-in-child", deleted_file_in_child},
    {"truncated", truncated_file},
    {"truncated-inside", truncated_inside_a_chunk},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const auto found = trials_by_name.find(argv[1]);
  if (found == trials_by_name.end()) return 2;
  const File file = trials::open_file(argv[2]);
  return found->second(
      {.file = file, .path = argv[2], .other_path = argc > 3 ? argv[3] : "", .program = argv[0]});
}
