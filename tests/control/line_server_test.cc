// The socket's loop against clients of every kind: many, silent, hostile, other people's.
#include "pager/control/line_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "pager/base/owned_fd.h"
#include "tests/base/lacks.h"

namespace weightpager::control {
namespace {

OwnedFd connect_to(const std::string& path) {
  OwnedFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
  return socket;
}

bool send_all(const OwnedFd& socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0) return false;
    text.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

/// Up to a line's end, or to the connection's.
std::string receive_line(const OwnedFd& socket) {
  std::string line;
  char letter = 0;
  while (recv(socket.get(), &letter, 1, 0) == 1 && letter != '\n') line += letter;
  return line;
}

bool is_closed(const OwnedFd& socket) {
  char letter;
  return recv(socket.get(), &letter, 1, 0) <= 0;
}

class LineServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    path_ = directory_ + "/socket";
  }

  void start(const ClientLimits& limits = {}) {
    loop_ = *Loop::open();
    auto server = LineServer::listen(
        *loop_, path_,
        [this](std::string_view request) {
          ++answered_;
          if (request == "much") return std::string(much_bytes, '.');
          return "<" + std::string(request) + ">";
        },
        limits);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    thread_ = std::thread([this] { loop_->run(); });
  }

  void TearDown() override {
    if (thread_.joinable()) {
      loop_->stop();
      thread_.join();
    }
    server_.reset();
    EXPECT_NE(access(path_.c_str(), F_OK), 0) << "the socket was left behind";
    rmdir(directory_.c_str());
  }

  static constexpr size_t much_bytes = 1u << 20;
  std::string directory_ = "/tmp/control_XXXXXX";
  std::string path_;
  std::atomic<int> answered_{0};
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<LineServer> server_;
  std::thread thread_;
};

// Whoever finds a socket at which nobody listens removes it.
TEST_F(LineServerTest, NobodyFindsItBeforeItListens) {
  for (int round = 0; round < 1000; ++round) {
    std::atomic<bool> is_open{false};
    std::atomic<bool> was_refused{false};
    std::thread client([&] {
      while (!is_open && !was_refused) {
        if (connect_to(path_).is_open()) return;
        was_refused = errno == ECONNREFUSED;
      }
    });
    const auto loop = *Loop::open();
    const auto server =
        LineServer::listen(*loop, path_, [](std::string_view it) { return std::string(it); });
    is_open = true;
    client.join();
    ASSERT_TRUE(server) << server.error().message;
    ASSERT_FALSE(was_refused) << "in round " << round;
  }
}

TEST_F(LineServerTest, AnswersEachLineInOrderHoweverItArrives) {
  start();
  const OwnedFd client = connect_to(path_);
  ASSERT_TRUE(send_all(client, "one\ntw"));
  EXPECT_EQ(receive_line(client), "<one>");
  ASSERT_TRUE(send_all(client, "o\n\nthree\n"));
  EXPECT_EQ(receive_line(client), "<two>");
  EXPECT_EQ(receive_line(client), "<>");
  EXPECT_EQ(receive_line(client), "<three>");
}

TEST_F(LineServerTest, AnswersThatDoNotFitAtOnceComeWhole) {
  start({});
  const OwnedFd client = connect_to(path_);
  ASSERT_TRUE(send_all(client, "much\nlast\n"));
  EXPECT_EQ(receive_line(client).size(), much_bytes);
  EXPECT_EQ(receive_line(client), "<last>");
}

TEST_F(LineServerTest, SocketIsItsOwnersOnly) {
  start();
  struct stat facts;
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

// The directory is what keeps others out; this is for one that somebody has opened.
TEST_F(LineServerTest, OtherUsersAreNotAnswered) {
  WP_SKIP_FOR(lack_unless(geteuid() == 0, "only root can become another user"));
  // Before there is a thread.
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t other = fork();
  if (other == 0) {
    char go;
    if (read(pipe_ends[0], &go, 1) != 1) _exit(10);
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) _exit(11);
    const OwnedFd client = connect_to(path_);
    if (!client.is_open()) _exit(12);
    send_all(client, "hello\n");
    _exit(receive_line(client).empty() ? 0 : 13);
  }
  start();
  chmod(directory_.c_str(), 0755);
  chmod(path_.c_str(), 0666);
  ASSERT_EQ(write(pipe_ends[1], "g", 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
  EXPECT_EQ(answered_, 0);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

TEST_F(LineServerTest, OneClientTooManyIsToldSo) {
  start();
  std::vector<OwnedFd> clients;
  for (size_t i = 0; i < ClientLimits{}.clients_max; ++i) {
    clients.push_back(connect_to(path_));
    ASSERT_TRUE(send_all(clients.back(), "in\n"));
    ASSERT_EQ(receive_line(clients.back()), "<in>");
  }
  const OwnedFd last = connect_to(path_);
  EXPECT_NE(receive_line(last).find("16 clients are connected already"), std::string::npos);
  EXPECT_TRUE(is_closed(last));
  // There is room again as soon as one goes.
  clients.pop_back();
  std::string line;
  while (line != "<again>") {
    const OwnedFd next = connect_to(path_);
    send_all(next, "again\n");
    line = receive_line(next);
  }
}

TEST_F(LineServerTest, AGibibyteOfGarbageEndsAfterOneRequest) {
  start();
  const OwnedFd client = connect_to(path_);
  const std::string garbage(1u << 20, 'x');
  uint64_t sent_bytes = 0;
  while (sent_bytes < 1u << 30 && send_all(client, garbage)) sent_bytes += garbage.size();
  // What the kernel's buffers hold, and no more.
  EXPECT_LE(sent_bytes, 16u << 20);
  EXPECT_EQ(answered_, 0);
  const OwnedFd other = connect_to(path_);
  ASSERT_TRUE(send_all(other, "fine\n"));
  EXPECT_EQ(receive_line(other), "<fine>");
}

TEST_F(LineServerTest, TooLongARequestIsToldSo) {
  start({.request_bytes_max = 64});
  const OwnedFd client = connect_to(path_);
  ASSERT_TRUE(send_all(client, std::string(63, 'x').append("\n")));
  EXPECT_EQ(receive_line(client).size(), 65u);
  ASSERT_TRUE(send_all(client, std::string(64, 'x')));
  EXPECT_NE(receive_line(client).find("longer than 64 bytes"), std::string::npos);
  EXPECT_TRUE(is_closed(client));
}

// One answer waits for it; the others are not even made.
TEST_F(LineServerTest, AClientThatNeverReadsIsClosed) {
  start({.patience_ms = 200});
  const OwnedFd silent = connect_to(path_);
  std::string requests;
  for (int i = 0; i < 100; ++i) requests += "much\n";
  ASSERT_TRUE(send_all(silent, requests));
  pollfd watched = {silent.get(), POLLRDHUP, 0};
  ASSERT_EQ(poll(&watched, 1, -1), 1);
  EXPECT_EQ(answered_, 1);
  const OwnedFd other = connect_to(path_);
  ASSERT_TRUE(send_all(other, "fine\n"));
  EXPECT_EQ(receive_line(other), "<fine>");
}

TEST_F(LineServerTest, TakesThePlaceOfASocketWhoseProcessWasKilled) {
  {
    const OwnedFd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size());
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  start();
  const OwnedFd client = connect_to(path_);
  ASSERT_TRUE(send_all(client, "alive\n"));
  EXPECT_EQ(receive_line(client), "<alive>");
}

TEST_F(LineServerTest, RefusesAPathThatIsTooLongForASocket) {
  const auto loop = *Loop::open();
  const auto server = LineServer::listen(*loop, std::string(200, 'p'), [](auto) { return ""; });
  ASSERT_FALSE(server);
  EXPECT_NE(server.error().message.find("name too long"), std::string::npos);
}

}  // namespace
}  // namespace weightpager::control
