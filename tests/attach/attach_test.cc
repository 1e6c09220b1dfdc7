// One window for several processes: real processes, a real server that is killed, and guests that
// say what no guest says.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csetjmp>
#include <functional>
#include <new>
#include <random>
#include <thread>

#include "pager/attach/attached_pager.h"
#include "pager/attach/server.h"
#include "tests/io/faulty_reader.h"
#include "tests/pager/model_file_fixture.h"

namespace weightpager::attach {
namespace {

thread_local sigjmp_buf after_signal;

/// The signal that loading the word raises, or 0 and the word.
int signal_of_load(const std::byte* address, uint64_t& word) {
  const int signal = sigsetjmp(after_signal, 1);
  if (signal == 0) word = *reinterpret_cast<const volatile uint64_t*>(address);
  return signal;
}

void leave_signal(int signal) { siglongjmp(after_signal, signal); }

uint64_t load(const std::byte* address) {
  return *reinterpret_cast<const volatile uint64_t*>(address);
}
void store(std::byte* address, uint64_t word) {
  *reinterpret_cast<volatile uint64_t*>(address) = word;
}

/// Counters in memory that child processes share.
telemetry::Telemetry* shared_telemetry() {
  void* memory = mmap(nullptr, sizeof(telemetry::Telemetry), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return new (memory) telemetry::Telemetry;
}

class AttachTest : public ::testing::Test {
 protected:
  void SetUp() override {
    struct sigaction action = {};
    action.sa_handler = leave_signal;
    action.sa_flags = SA_NODEFER;
    sigaction(SIGBUS, &action, &before_[0]);
    sigaction(SIGSEGV, &action, &before_[1]);
    WP_SKIP_FOR(lack_for_mapper(window::shared_mapper_name()));
  }
  void TearDown() override {
    if (server_ > 0) {
      kill(server_, SIGKILL);
      waitpid(server_, nullptr, 0);
    }
    unlink(socket_path_.c_str());  // a server that was killed leaves it
    sigaction(SIGBUS, &before_[0], nullptr);
    sigaction(SIGSEGV, &before_[1], nullptr);
  }

  /// A process of its own that serves the file until it is killed or `stop` is written to.
  void serve(const PatternFile& file, uint64_t window_bytes, io::FaultPlan plan = nullptr) {
    int is_ready[2];
    ASSERT_EQ(pipe(is_ready), 0);
    server_ = fork();
    if (server_ == 0) _exit(serve_here(file, window_bytes, plan, is_ready[1]));
    char letter = 0;
    close(is_ready[1]);
    ASSERT_EQ(read(is_ready[0], &letter, 1), 1) << "the server did not start";
    close(is_ready[0]);
  }

  int serve_here(const PatternFile& file, uint64_t window_bytes, const io::FaultPlan& plan,
                 int is_ready) {
    PagerOptions options;
    options.window_bytes = window_bytes;
    options.mapper = window::shared_mapper_name();
    options.serves_guests = true;
    options.telemetry = served_;
    if (plan) options.open_reader = io::faulty_pread(plan);
    auto pager = Pager::start(options);
    if (!pager) return 2;
    auto server = Server::start(socket_path_, std::move(*pager));
    if (!server) return 3;
    auto model = model::open_model_file(file.path());
    RegionRequest request;
    request.path = request.name = file.path();
    request.model = &*model;
    if (!(*server)->add_file(request)) return 4;
    if (write(is_ready, "x", 1) != 1) return 5;
    close(is_ready);
    return (*server)->run(stop_) ? 0 : 6;
  }

  void stop_server() {
    const uint64_t one = 1;
    ASSERT_EQ(write(stop_, &one, sizeof one), static_cast<ssize_t>(sizeof one));
    int status = 0;
    ASSERT_EQ(waitpid(server_, &status, 0), server_);
    server_ = 0;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  }

  std::unique_ptr<AttachedPager> attach() {
    auto pager = AttachedPager::start(socket_path_, shared_telemetry());
    EXPECT_TRUE(pager) << pager.error().message;
    return pager ? std::move(*pager) : nullptr;
  }

  static std::byte* map(AttachedPager& pager, const PatternFile& file, bool is_writable = false,
                        uint64_t offset_bytes = 0, uint64_t length_bytes = 0) {
    RegionRequest request;
    request.path = request.name = file.path();
    request.offset_bytes = offset_bytes;
    request.length_bytes = length_bytes == 0 ? file.size_bytes() - offset_bytes : length_bytes;
    request.is_writable = is_writable;
    auto address = pager.add_region(request);
    EXPECT_TRUE(address) << address.error().message;
    return address ? *address : nullptr;
  }

  /// Until the server has been told that somebody stands still at this offset of the one file that
  /// it serves.
  void await_touch(uint64_t offset_bytes) const {
    const uint64_t chunk = offset_bytes / served_->chunk_bytes;
    while (served_->cursor_chunk != chunk) std::this_thread::yield();
  }

  /// Pages whose word is not the file's.
  static uint64_t wrong_pages(const std::byte* region, uint64_t offset_bytes, uint64_t end) {
    uint64_t wrong = 0;
    for (uint64_t at = 0; offset_bytes + at + 8 <= end; at += os_page_bytes) {
      uint64_t word = 0;
      if (signal_of_load(region + at, word) != 0 || word != word_at(offset_bytes + at)) ++wrong;
    }
    return wrong;
  }

  /// Another guest: a child process that attaches once it is let go. It is made before this process
  /// attaches itself: a child of a process with threads may not start threads under
  /// ThreadSanitizer, nor may it by POSIX.
  struct Guest {
    pid_t process;
    int gate;
    void let_go() const {
      EXPECT_EQ(write(gate, "g", 1), 1);
      close(gate);
    }
  };

  /// `act` runs in the child with a pager of its own, and returns 0 if all was well.
  Guest make_guest(const std::function<int(AttachedPager&)>& act) const {
    int gate[2];
    EXPECT_EQ(pipe2(gate, O_CLOEXEC), 0);
    const pid_t child = fork();
    if (child != 0) {
      close(gate[0]);
      return {child, gate[1]};
    }
    close(gate[1]);
    char letter;
    if (read(gate[0], &letter, 1) != 1) _exit(98);
    auto pager = AttachedPager::start(socket_path_, shared_telemetry());
    _exit(pager ? act(**pager) : 99);
  }

  pid_t start_guest(const std::function<int(AttachedPager&)>& act) const {
    const Guest guest = make_guest(act);
    guest.let_go();
    return guest.process;
  }

  static int status_of(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  int connect_raw() const {
    const sockaddr_un address = *socket_address(socket_path_);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  const std::string socket_path_ = "attach_test_" + std::to_string(getpid()) + ".socket";
  telemetry::Telemetry* const served_ = shared_telemetry();
  const int stop_ = eventfd(0, EFD_CLOEXEC);
  pid_t server_ = 0;

 private:
  struct sigaction before_[2];
};

TEST_F(AttachTest, AGuestSeesTheFilesBytesPassAfterPass) {
  PatternFile file(100 * MiB + 12345);
  serve(file, 32 * MiB);
  auto pager = attach();
  std::byte* region = map(*pager, file);
  for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(wrong_pages(region, 0, file.size_bytes()), 0u);
  // A second view, off the grid; and the end of the file is as with mmap.
  const uint64_t offset = 3 * MiB + 3 * os_page_bytes;
  std::byte* part = map(*pager, file, false, offset, 17 * MiB + os_page_bytes);
  EXPECT_EQ(wrong_pages(part, offset, offset + 17 * MiB), 0u);
  EXPECT_EQ(region[100 * MiB + 12345], std::byte{0});
  EXPECT_LE(served_->resident_bytes_max.load(), 32 * MiB);
  EXPECT_GT(served_->evictions.load(), 0u);
  pager->remove(region, file.size_bytes());
  EXPECT_EQ(wrong_pages(part, offset, offset + 17 * MiB), 0u);
  pager->remove(part, 17 * MiB + os_page_bytes);
  pager.reset();
  stop_server();
}

TEST_F(AttachTest, EachByteIsReadOnceForAllGuestsNowAndLater) {
  PatternFile file(60 * MiB);
  serve(file, 64 * MiB);
  const auto read_all = [&](AttachedPager& pager) {
    const std::byte* region = map(pager, file);
    return wrong_pages(region, 0, file.size_bytes()) == 0 ? 0 : 1;
  };
  const pid_t guests[] = {start_guest(read_all), start_guest(read_all), start_guest(read_all)};
  for (const pid_t guest : guests) EXPECT_EQ(status_of(guest), 0);
  EXPECT_EQ(served_->read_bytes.load(), file.size_bytes());
  // The guests are gone, and their chunks are still there for the next one.
  EXPECT_EQ(status_of(start_guest(read_all)), 0);
  EXPECT_EQ(served_->read_bytes.load(), file.size_bytes());
  EXPECT_EQ(served_->resident_bytes_max.load(), 60 * MiB);
  stop_server();
}

TEST_F(AttachTest, WhatAGuestWritesIsItsOwn) {
  PatternFile file(80 * MiB);
  serve(file, 32 * MiB);
  const Guest other_guest = make_guest([&](AttachedPager& other) {
    return wrong_pages(map(other, file), 0, file.size_bytes()) == 0 ? 0 : 1;
  });
  auto pager = attach();
  std::byte* region = map(*pager, file, true);
  for (uint64_t at = 0; at < file.size_bytes(); at += 10 * MiB) store(region + at, at + 7);
  other_guest.let_go();
  EXPECT_EQ(status_of(other_guest.process), 0);
  EXPECT_EQ(wrong_pages(region, 0, file.size_bytes()), 8u);
  for (uint64_t at = 0; at < file.size_bytes(); at += 10 * MiB) {
    ASSERT_EQ(load(region + at), at + 7);
  }
  EXPECT_EQ(pager->written_spans().size(), 8u);
  // A child process inherits what was written.
  const pid_t child = fork();
  if (child == 0) _exit(load(region + 30 * MiB) == 30 * MiB + 7 ? 0 : 1);
  EXPECT_EQ(status_of(child), 0);
  pager->advise(region, 20 * MiB, Advice::discard);
  EXPECT_EQ(load(region), word_at(0));
  EXPECT_EQ(load(region + 10 * MiB), word_at(10 * MiB));
  EXPECT_EQ(load(region + 20 * MiB), 20 * MiB + 7);
  pager->remove(region, file.size_bytes());
}

TEST_F(AttachTest, WritingToAReadOnlyRegionIsASegmentationFault) {
  PatternFile file(40 * MiB);
  serve(file, 32 * MiB);
  auto pager = attach();
  std::byte* region = map(*pager, file);
  EXPECT_EQ(wrong_pages(region, 0, file.size_bytes()), 0u);
  volatile int signal = sigsetjmp(after_signal, 1);
  if (signal == 0) store(region + 4096, 1);
  EXPECT_EQ(signal, SIGSEGV);
  pager->remove(region, file.size_bytes());
}

TEST_F(AttachTest, WhenTheServerIsKilledEveryTouchIsABusError) {
  PatternFile file(100 * MiB);
  // Nothing beyond the first 20 MiB is ever read: there somebody waits when the server dies.
  serve(file, 32 * MiB, [](uint64_t, const io::Read& read) {
    const bool hangs = read.offset_bytes >= 20 * MiB;
    return io::Fault{.kind = hangs ? io::Fault::Kind::hang : io::Fault::Kind::none};
  });
  auto pager = attach();
  std::byte* region = map(*pager, file);
  std::byte* own = map(*pager, file, true);
  EXPECT_EQ(wrong_pages(region, 0, 20 * MiB), 0u);
  store(own + 4096, 5);
  std::atomic<int> signal{-1};
  std::thread waiter([&] {
    uint64_t word = 0;
    signal = signal_of_load(region + 50 * MiB, word);
  });
  await_touch(50 * MiB);
  EXPECT_EQ(signal, -1);
  const auto killed_at = std::chrono::steady_clock::now();
  kill(server_, SIGKILL);
  waiter.join();
  const auto waited = std::chrono::steady_clock::now() - killed_at;
  RecordProperty(
      "bus_error_after_us",
      std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(waited).count()));
  EXPECT_EQ(signal, SIGBUS);
  // Also what was there; but not what the guest wrote itself. (The kernel may tell a thread that
  // waits before the guest has taken notice, and the guest takes one region after the other.)
  uint64_t word = 0;
  for (const std::byte* page : {region, own + 8192}) {
    while (signal_of_load(page, word) == 0) std::this_thread::yield();
    EXPECT_EQ(signal_of_load(page, word), SIGBUS);
  }
  EXPECT_EQ(load(own + 4096), 5u);
  // A child process inherits it still, and when it is given up nothing takes its place.
  EXPECT_EQ(pager->written_spans().size(), 1u);
  const pid_t child = fork();
  if (child == 0) _exit(load(own + 4096) == 5 ? 0 : 1);
  EXPECT_EQ(status_of(child), 0);
  pager->advise(own, MiB, Advice::discard);
  EXPECT_TRUE(pager->written_spans().empty());
  EXPECT_EQ(signal_of_load(own + 4096, word), SIGBUS);
  RegionRequest request;
  request.path = request.name = file.path();
  request.length_bytes = file.size_bytes();
  EXPECT_FALSE(pager->add_region(request));
  pager->remove(region, file.size_bytes());
  pager->remove(own, file.size_bytes());
}

TEST_F(AttachTest, AGuestThatIsKilledWhileItWaitsHarmsNobody) {
  PatternFile file(100 * MiB);
  serve(file, 32 * MiB, [](uint64_t, const io::Read& read) {
    const bool hangs = read.offset_bytes == 60 * MiB;
    return io::Fault{.kind = hangs ? io::Fault::Kind::hang : io::Fault::Kind::none};
  });
  int waits[2];
  ASSERT_EQ(pipe(waits), 0);
  const Guest guest = make_guest([&](AttachedPager& other) {
    const std::byte* view = map(other, file);
    if (load(view) != word_at(0) || write(waits[1], "x", 1) != 1) return 1;
    return load(view + 60 * MiB) == word_at(60 * MiB) ? 2 : 3;
  });
  auto pager = attach();
  std::byte* region = map(*pager, file, false, 0, 50 * MiB);
  guest.let_go();
  char letter;
  ASSERT_EQ(read(waits[0], &letter, 1), 1);
  await_touch(60 * MiB);
  kill(guest.process, SIGKILL);
  EXPECT_EQ(status_of(guest.process), -SIGKILL);
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(wrong_pages(region, 0, 50 * MiB), 0u);
  pager->remove(region, 50 * MiB);
}

TEST_F(AttachTest, AFailingReadIsABusErrorForItsChunkInEveryGuest) {
  PatternFile file(40 * MiB);
  serve(file, 64 * MiB, [](uint64_t, const io::Read& read) {
    const bool fails = read.offset_bytes == 10 * MiB;
    return io::Fault{.kind = fails ? io::Fault::Kind::error : io::Fault::Kind::none,
                     .error_number = EIO};
  });
  auto pager = attach();
  auto other = attach();
  for (AttachedPager* guest : {pager.get(), other.get()}) {
    std::byte* region = map(*guest, file);
    uint64_t word = 0;
    EXPECT_EQ(signal_of_load(region + 11 * MiB, word), SIGBUS);
    EXPECT_EQ(wrong_pages(region, 0, file.size_bytes()), 2 * MiB / os_page_bytes);
    guest->remove(region, file.size_bytes());
  }
}

TEST_F(AttachTest, OnlyFilesThatAreServedCanBeMapped) {
  PatternFile file(40 * MiB);
  PatternFile other(40 * MiB);
  serve(file, 32 * MiB);
  auto pager = attach();
  RegionRequest request;
  request.path = request.name = other.path();
  request.length_bytes = other.size_bytes();
  const auto refused = pager->add_region(request);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("not among the files"), std::string::npos);
}

TEST_F(AttachTest, NobodyIsAttachedWhereNobodyServes) {
  const auto refused = AttachedPager::start(socket_path_, shared_telemetry());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("no server there"), std::string::npos);
  EXPECT_FALSE(is_served(socket_path_));
}

TEST_F(AttachTest, ASocketHasOneServerAndADeadOnesIsTakenOver) {
  PatternFile file(40 * MiB);
  serve(file, 32 * MiB);
  const pid_t second = fork();
  if (second == 0) _exit(serve_here(file, 32 * MiB, nullptr, -1));
  EXPECT_EQ(status_of(second), 3);
  kill(server_, SIGKILL);
  waitpid(server_, nullptr, 0);
  serve(file, 32 * MiB);
  auto pager = attach();
  std::byte* region = map(*pager, file);
  EXPECT_EQ(wrong_pages(region, 0, file.size_bytes()), 0u);
  pager->remove(region, file.size_bytes());
}

constexpr Message hello{.kind = Message::Kind::hello, .value = protocol_version};

/// Whether the server ends the connection instead of taking the guest in.
bool ends(int socket) {
  Message answer;
  OwnedFd fd;
  for (;;) {
    const Received received = receive_message(socket, answer, fd);
    if (received == Received::end) return true;
    if (received == Received::message && answer.kind == Message::Kind::done) return false;
  }
}

Message answer_to(int socket, const Message& message, OwnedFd& memory) {
  Message answer;
  EXPECT_TRUE(send_message(socket, message));
  EXPECT_EQ(receive_message(socket, answer, memory), Received::message);
  return answer;
}

Message::Kind answer_to(int socket, const Message& message) {
  OwnedFd memory;
  return answer_to(socket, message, memory).kind;
}

TEST_F(AttachTest, WhoGreetsAsNoGuestDoesIsThrownOut) {
  PatternFile file(40 * MiB);
  serve(file, 32 * MiB);
  const Message of_another_version{.kind = Message::Kind::hello, .value = protocol_version + 1};
  auto faults = fault::Userfaultfd::open();
  ASSERT_TRUE(faults);
  int tube[2];
  ASSERT_EQ(pipe(tube), 0);
  const int unprepared = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
  struct {
    const Message* message;
    int fd;
  } const greetings[] = {
      {&hello, -1}, {&hello, tube[0]}, {&hello, unprepared}, {&of_another_version, faults->fd()}};
  for (const auto& greeting : greetings) {
    OwnedFd socket(connect_raw());
    ASSERT_TRUE(send_message(socket.get(), *greeting.message, greeting.fd));
    EXPECT_TRUE(ends(socket.get()));
  }
  OwnedFd socket(connect_raw());
  ASSERT_EQ(send(socket.get(), "hello", 5, MSG_NOSIGNAL), 5);
  EXPECT_TRUE(ends(socket.get()));
  stop_server();
}

/// Far from everything that is mapped.
constexpr uint64_t empty_place = uint64_t{1} << 40;

/// What no guest asks for, of a file of 40 MiB.
std::vector<Message> impossible_wishes(uint64_t edition, const io::FileIdentity& identity) {
  using Kind = Message::Kind;
  return {
      {.kind = Kind::add_region, .file = 1, .address = empty_place, .length_bytes = MiB},
      {.kind = Kind::add_region, .edition = edition, .address = empty_place, .length_bytes = 0},
      {.kind = Kind::add_region,
       .edition = edition,
       .address = empty_place,
       .length_bytes = 41 * MiB},
      {.kind = Kind::add_region,
       .edition = edition,
       .offset_bytes = 1,
       .address = empty_place,
       .length_bytes = MiB},
      {.kind = Kind::add_region,
       .edition = edition,
       .offset_bytes = 4096,
       .address = empty_place,
       .length_bytes = MiB},
      {.kind = Kind::add_region,
       .edition = edition,
       .offset_bytes = ~uint64_t{4095},
       .address = empty_place - 4096,
       .length_bytes = 8192},
      {.kind = Kind::add_region, .edition = edition, .address = 0, .length_bytes = MiB},
      {.kind = Kind::add_region,
       .edition = edition,
       .address = ~(2 * MiB - 1),
       .length_bytes = 4 * MiB},
      {.kind = Kind::remove, .address = 4096, .length_bytes = ~uint64_t{0}},
      {.kind = Kind::advise, .value = 77, .address = empty_place, .length_bytes = MiB},
      {.kind = Kind::file},
      {.kind = Kind::open},
      {.kind = Kind::open, .device = identity.device, .inode = identity.inode + 1},
      {.kind = Kind::seal, .address = empty_place, .length_bytes = MiB},
      {.kind = static_cast<Kind>(12345)},
  };
}

TEST_F(AttachTest, AProperGuestWithImproperWishesIsRefused) {
  using Kind = Message::Kind;
  PatternFile file(40 * MiB);
  serve(file, 32 * MiB);
  auto faults = fault::Userfaultfd::open();
  ASSERT_TRUE(faults);
  OwnedFd socket(connect_raw());
  ASSERT_TRUE(send_message(socket.get(), hello, faults->fd()));
  Message answer;
  OwnedFd memory;
  ASSERT_EQ(receive_message(socket.get(), answer, memory), Received::message);
  EXPECT_EQ(answer.kind, Kind::done);
  const auto identity = io::ModelFile::open(file.path())->identity();
  const Message open{.kind = Kind::open, .device = identity.device, .inode = identity.inode};
  answer = answer_to(socket.get(), open, memory);
  EXPECT_EQ(answer.kind, Kind::file);
  EXPECT_EQ(answer.size_bytes, file.size_bytes());
  const uint64_t edition = answer.edition;
  // Its memory is for reading only.
  EXPECT_EQ(fcntl(memory.get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_EQ(ftruncate(memory.get(), 0), -1);
  const std::vector<Message> impossible = impossible_wishes(edition, identity);
  for (const Message& message : impossible) {
    EXPECT_EQ(answer_to(socket.get(), message), Kind::refused)
        << "message " << &message - impossible.data();
  }
  const Message former{.kind = Kind::add_region,
                       .edition = edition + 1,
                       .address = empty_place,
                       .length_bytes = 4 * MiB};
  EXPECT_EQ(answer_to(socket.get(), former), Kind::changed);
  // Possible ones, where nothing is.
  const Message idle[] = {
      {.kind = Kind::remove, .address = 0, .length_bytes = ~uint64_t{0}},
      {.kind = Kind::advise, .address = 0, .length_bytes = ~uint64_t{0}},
      {.kind = Kind::add_region,
       .edition = edition,
       .address = empty_place,
       .length_bytes = 4 * MiB},
  };
  for (const Message& message : idle) {
    EXPECT_EQ(answer_to(socket.get(), message), Kind::done) << "message " << &message - idle;
  }
  EXPECT_EQ(answer_to(socket.get(), idle[2]), Kind::refused);  // the same empty_place again
  // Who asks and asks, and takes no answer, is cut off.
  while (send_message(socket.get(), idle[1], -1, false)) {
  }
  auto pager = attach();
  std::byte* region = map(*pager, file);
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(wrong_pages(region, 0, file.size_bytes()), 0u);
  pager->remove(region, file.size_bytes());
  pager.reset();
  socket = OwnedFd();
  stop_server();
}

TEST_F(AttachTest, WhoMapsAChangedFileGetsItAsItIsThen) {
  PatternFile file(40 * MiB);
  serve(file, 64 * MiB);
  auto pager = attach();
  std::byte* const older = map(*pager, file);
  EXPECT_EQ(wrong_pages(older, 0, file.size_bytes()), 0u);
  file.turn_over();
  auto other = attach();
  for (AttachedPager* const guest : {other.get(), pager.get()}) {
    std::byte* const newer = map(*guest, file);
    for (uint64_t at = 0; at < file.size_bytes(); at += os_page_bytes) {
      ASSERT_EQ(load(newer + at), ~word_at(at)) << "offset " << at;
    }
    guest->remove(newer, file.size_bytes());
  }
  pager->remove(older, file.size_bytes());
  // Another file takes the name.
  const PatternFile third(40 * MiB);
  ASSERT_EQ(rename(third.path().c_str(), file.path().c_str()), 0);
  std::byte* const newest = map(*pager, file);
  EXPECT_EQ(wrong_pages(newest, 0, file.size_bytes()), 0u);
  pager->remove(newest, file.size_bytes());
  pager.reset();
  other.reset();
  stop_server();
}

TEST_F(AttachTest, GuestsComeAndGoAndTouchAtRandom) {
  PatternFile file(96 * MiB);
  serve(file, 40 * MiB);
  std::vector<pid_t> guests;
  for (unsigned seed = 0; seed < 4; ++seed) {
    guests.push_back(start_guest([&, seed](AttachedPager& pager) {
      std::mt19937_64 random(seed);
      for (int round = 0; round < 6; ++round) {
        const uint64_t offset = random() % 4000 * os_page_bytes;
        const uint64_t bytes = 30 * MiB + random() % 1000 * os_page_bytes;
        std::byte* region = map(pager, file, round % 2 == 0, offset, bytes);
        for (int i = 0; i < 400; ++i) {
          const uint64_t at = random() % (bytes / 8) * 8;
          if (load(region + at) != word_at(offset + at)) return 1;
          const auto advice = static_cast<Advice>(random() % 3);
          const uint64_t advised_bytes = std::min<uint64_t>(5 * MiB, bytes - at);
          if (i % 37 == 0) pager.advise(region + at, advised_bytes, advice);
        }
        pager.remove(region, bytes / 2 / os_page_bytes * os_page_bytes);
        // Half of the guests leave the rest behind for the server to clean up.
        if (seed % 2 == 0) pager.remove(region, bytes);
      }
      return 0;
    }));
  }
  for (const pid_t guest : guests) EXPECT_EQ(status_of(guest), 0);
  EXPECT_LE(served_->resident_bytes_max.load(), 40 * MiB);
  stop_server();
}

}  // namespace
}  // namespace weightpager::attach
