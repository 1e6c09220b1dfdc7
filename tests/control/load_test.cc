// A pager that works while everybody asks it at once: eight clients at 100 Hz, as many over HTTP,
// one that never reads, and two that send a gibibyte of garbage. (What that costs is measured by
// bench/control_load.py.)
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "pager/control/client.h"
#include "pager/control/control_socket.h"
#include "pager/control/pager_answers.h"
#include "pager/control/runtime_directory.h"
#include "tests/base/sanitized.h"
#include "tests/pager/model_file_fixture.h"

namespace weightpager::control {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t model_bytes = 64 * MiB;
constexpr int pollers = 8;
constexpr int questions = 100;
// Of each of two clients. In a sanitizer build, beside other tests, reading 512 MiB keeps the pager
// from answering for longer than the ten seconds that a client waits.
constexpr uint64_t garbage_bytes = is_sanitized ? 64 * MiB : 512 * MiB;
constexpr uint64_t growth_bytes_max = 24 * MiB;

uint64_t resident_now() {
  std::ifstream status("/proc/self/statm");
  uint64_t all = 0, resident = 0, shared = 0;
  status >> all >> resident >> shared;
  return (resident - shared) * os_page_bytes;
}

OwnedFd connected(int family, const sockaddr* address, socklen_t length) {
  OwnedFd it(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(it.get(), address, length) != 0) return {};
  return it;
}

class LoadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(directory_), nullptr);
    setenv("XDG_RUNTIME_DIR", directory_, 1);
    telemetry_ = *telemetry::create("");
    WP_SKIP_FOR(lack_of_userfaultfd());
    PagerOptions options;
    options.window_bytes = 32 * MiB;
    options.telemetry = telemetry_;
    pager_ = started(options);
    RegionRequest request;
    request.path = request.name = file_.path();
    request.length_bytes = model_bytes;
    region_ = *pager_->add_region(request);
    answers_ = std::make_unique<PagerAnswers>(*pager_, *telemetry_);
    testing::internal::CaptureStderr();
    socket_ = *ControlSocket::open([this](auto it) { return answers_->answer(it); }, uint16_t{0});
    const std::string said = testing::internal::GetCapturedStderr();
    const size_t at = said.find("127.0.0.1:");
    ASSERT_NE(at, std::string::npos) << said;
    port_ = static_cast<uint16_t>(std::stoul(said.substr(at + sizeof "127.0.0.1:" - 1)));
  }
  void TearDown() override {
    socket_.reset();
    answers_.reset();
    if (region_ != nullptr) pager_->remove(region_, model_bytes);
    pager_.reset();
    telemetry::close(telemetry_);
    rmdir((std::string(directory_) + "/weightpager").c_str());
    EXPECT_EQ(rmdir(directory_), 0);
  }

  OwnedFd connect_to_socket() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    own_socket_path()->copy(address.sun_path, sizeof address.sun_path - 1);
    return connected(AF_UNIX, reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  OwnedFd connect_to_port() const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connected(AF_INET, reinterpret_cast<sockaddr*>(&address), sizeof address);
  }

  /// An engine's passes, until all clients have had enough; every byte is the file's.
  void compute_while(const std::atomic<int>& clients) const {
    while (clients > 0) {
      for (uint64_t at = 0; at < model_bytes; at += 64 * KiB) {
        ASSERT_EQ(*reinterpret_cast<const volatile uint64_t*>(region_ + at), word_at(at));
      }
    }
  }

  void poll_socket(std::atomic<int>& answered) const {
    auto client = Client::connect(getpid());
    ASSERT_TRUE(client) << client.error().message;
    for (int i = 0; i < questions; ++i) {
      const char* const what = i % 10 == 0 ? "residency" : i % 10 == 5 ? "metrics" : "stat";
      const auto answer = client->ask({{"request", what}});
      ASSERT_TRUE(answer) << answer.error().message;
      ++answered;
      std::this_thread::sleep_for(10ms);
    }
  }
  void poll_port(std::atomic<int>& answered) const {
    for (int i = 0; i < questions; ++i) {
      const OwnedFd socket = connect_to_port();
      const std::string request = std::string("GET ") + (i % 10 == 0 ? "/metrics" : "/api/stat") +
                                  " HTTP/1.1\r\nHost: localhost\r\n\r\n";
      send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL);
      char piece[64 << 10];
      std::string answer;
      for (ssize_t count; (count = recv(socket.get(), piece, sizeof piece, 0)) > 0;) {
        answer.append(piece, static_cast<size_t>(count));
      }
      // One of more than 16 at once is closed without a word.
      if (answer.starts_with("HTTP/1.1 200 OK\r\n")) ++answered;
      std::this_thread::sleep_for(10ms);
    }
  }
  /// Whoever refuses it is connected to again.
  template <typename Connect>
  static void send_garbage(Connect connect) {
    const std::string piece(64 << 10, 'x');
    for (uint64_t sent = 0; sent < garbage_bytes;) {
      const OwnedFd socket = connect();
      if (!socket.is_open()) continue;
      for (ssize_t count = 0; count >= 0 && sent < garbage_bytes; sent += piece.size()) {
        count = send(socket.get(), piece.data(), piece.size(), MSG_NOSIGNAL);
      }
    }
  }

  char directory_[24] = "/tmp/wp-load-XXXXXX";
  PatternFile file_{model_bytes};
  telemetry::Telemetry* telemetry_ = nullptr;
  std::unique_ptr<Pager> pager_;
  std::byte* region_ = nullptr;
  std::unique_ptr<PagerAnswers> answers_;
  std::unique_ptr<ControlSocket> socket_;
  uint16_t port_ = 0;
};

TEST_F(LoadTest, EverybodyIsAnsweredAndNothingGrows) {
  const OwnedFd silent = connect_to_socket();
  const std::string much = "{\"request\":\"residency\",\"by\":\"tensor\"}\n";
  std::atomic<int> at_work{0}, answered{0}, answered_over_http{0};
  std::vector<std::thread> clients;
  const auto begin = [&](auto work) {
    ++at_work;
    clients.emplace_back([&at_work, work] {
      work();
      --at_work;
    });
  };
  // Until the pager has its window.
  begin([&] {
    while (telemetry_->evictions == 0) std::this_thread::sleep_for(10ms);
  });
  compute_while(at_work);
  const uint64_t before_bytes = resident_now();
  for (int i = 0; i < pollers; ++i) {
    begin([&] { poll_socket(answered); });
    begin([&] { poll_port(answered_over_http); });
  }
  begin([&] {
    for (int i = 0; i < questions; ++i) {
      send(silent.get(), much.data(), much.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      std::this_thread::sleep_for(10ms);
    }
  });
  begin([&] { send_garbage([&] { return connect_to_socket(); }); });
  begin([&] { send_garbage([&] { return connect_to_port(); }); });
  compute_while(at_work);
  for (std::thread& it : clients) it.join();
  EXPECT_EQ(answered, pollers * questions);
  EXPECT_GT(answered_over_http, 0);
  // Sanitizers keep what was freed.
  if (!is_sanitized) {
    EXPECT_LT(resident_now(), before_bytes + growth_bytes_max);
  }
}

}  // namespace
}  // namespace weightpager::control
