// How a process is found and asked, and what is said of one that is not there.
#include "pager/control/client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "pager/control/control_socket.h"
#include "pager/control/runtime_directory.h"

namespace weightpager::control {
namespace {

namespace fs = std::filesystem;

class ClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    setenv("XDG_RUNTIME_DIR", directory_.c_str(), 1);
  }
  void TearDown() override { fs::remove_all(directory_); }

  /// Beside others of this user's, wherever their sockets are.
  static bool is_found(pid_t process_id) {
    const std::vector<pid_t> found = find_processes();
    return std::find(found.begin(), found.end(), process_id) != found.end();
  }

  std::string socket_of(pid_t process_id) const {
    return directory_ + "/weightpager/" + std::to_string(process_id) + ".sock";
  }

  std::string directory_ = "/tmp/control_XXXXXX";
};

TEST_F(ClientTest, AsksThisProcess) {
  auto socket = ControlSocket::open([](std::string_view request) {
    return request.find("please") == std::string_view::npos
               ? std::string(R"({"ok":false,"error":"not so","hint":"say please"})")
               : std::string(R"({"ok":true,"answer":42})");
  });
  ASSERT_TRUE(socket) << socket.error().message;
  struct stat facts;
  ASSERT_EQ(stat((directory_ + "/weightpager").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u);
  auto client = Client::connect(getpid());
  ASSERT_TRUE(client) << client.error().message;
  const auto answer = client->ask({{"request", "please"}});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->at("answer"), 42);
  const auto refused = client->ask({{"request", "now"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "not so");
  EXPECT_EQ(refused.error().hint, "say please");
  EXPECT_TRUE(is_found(getpid()));
  // Its end is an error of its own.
  socket->reset();
  const auto ended = client->ask({{"request", "please"}});
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().error_number, process_ended);
  EXPECT_FALSE(fs::exists(socket_of(getpid())));
  EXPECT_FALSE(is_found(getpid()));
}

TEST_F(ClientTest, SweepsWhatKilledProcessesLeft) {
  ASSERT_TRUE(runtime_directory());
  const pid_t child = fork();
  if (child == 0) {
    auto socket = ControlSocket::open([](std::string_view) { return "{}"; });
    raise(SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  ASSERT_TRUE(fs::exists(socket_of(child)));
  // One that it was about to open, and one that this process may be about to.
  std::ofstream(socket_of(child) + "~") << "";
  std::ofstream(socket_of(getpid()) + "~") << "";
  std::ofstream(directory_ + "/weightpager/notes.sock") << "not a process";
  EXPECT_FALSE(is_found(child));
  EXPECT_FALSE(fs::exists(socket_of(child)));
  EXPECT_FALSE(fs::exists(socket_of(child) + "~"));
  EXPECT_TRUE(fs::exists(socket_of(getpid()) + "~"));
  EXPECT_TRUE(fs::exists(directory_ + "/weightpager/notes.sock"));
  const auto gone = Client::connect(child);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().error_number, process_ended);
  EXPECT_NE(gone.error().message.find("there is no process"), std::string::npos);
}

TEST_F(ClientTest, SaysWhenAProcessHasNoSocket) {
  const auto nobody = Client::connect(getpid());
  ASSERT_FALSE(nobody);
  EXPECT_NE(nobody.error().message.find("has no control socket"), std::string::npos);
}

TEST_F(ClientTest, ADirectoryThatOthersCanEnterIsNotUsed) {
  chmod(directory_.c_str(), 0755);
  const auto elsewhere = runtime_directory();
  if (elsewhere) {
    EXPECT_EQ(elsewhere->find(directory_), std::string::npos) << *elsewhere;
  }
  chmod(directory_.c_str(), 0700);
  const auto here = runtime_directory();
  ASSERT_TRUE(here) << here.error().message;
  EXPECT_EQ(*here, directory_ + "/weightpager");
  chmod(here->c_str(), 0770);
  const auto open_to_others = runtime_directory();
  ASSERT_FALSE(open_to_others);
  EXPECT_NE(open_to_others.error().message.find("only you can enter"), std::string::npos);
}

}  // namespace
}  // namespace weightpager::control
