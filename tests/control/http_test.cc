// HTTP as programs of every kind send it: what is answered, what is refused, and that nothing waits
// for ever.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "pager/base/owned_fd.h"
#include "pager/control/http_pages.h"
#include "pager/control/http_server.h"

namespace weightpager::control {
namespace {

TEST(HttpRequest, IsTakenOrRefused) {
  const auto refusal = [](std::string_view head) { return parse_http_request(head).refusal; };
  const HttpRequest good =
      parse_http_request("GET /a?b=c HTTP/1.1\r\nAccept: */*\r\nhost:  localhost:9377\r\n\r\n");
  EXPECT_EQ(good.refusal, 0);
  EXPECT_EQ(good.target, "/a?b=c");
  EXPECT_FALSE(good.is_head);
  EXPECT_TRUE(parse_http_request("HEAD / HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").is_head);
  EXPECT_EQ(refusal("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 405);
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\n\r\n"), 403);
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: elsewhere\r\n\r\n"), 403);
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: localhost.elsewhere:80\r\n\r\n"), 403);
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost:\r\n\r\n"), 403);
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: localhost\r\nHost: elsewhere\r\n\r\n"), 403);
  for (const char* head :
       {"\r\n\r\n", "GET\r\n\r\n", "GET /\r\n\r\n", "GET  HTTP/1.1\r\n\r\n",
        "GET http://x/ HTTP/1.1\r\n\r\n", "GET / HTTP/2\r\n\r\n", " / \r\n\r\n"}) {
    EXPECT_EQ(refusal(head), 400) << head;
  }
}

TEST(HttpPages, AskTheSocketsQuestions) {
  std::string asked;
  const auto answer = [&](std::string_view request) {
    asked = request;
    return std::string(R"({"ok":true,"text":"a 1\n# EOF\n"})");
  };
  EXPECT_EQ(http_page("/api/residency?model=2&by=layer&&first", answer).status, 200);
  EXPECT_EQ(asked, R"({"by":"layer","model":2,"request":"residency"})");
  // What is asked for in the path is asked for.
  http_page("/api/stat?request=set&window=1", answer);
  EXPECT_EQ(asked, R"({"request":"stat","window":1})");
  const HttpResponse metrics = http_page("/metrics", answer);
  EXPECT_EQ(metrics.body, "a 1\n# EOF\n");
  EXPECT_EQ(asked, R"({"request":"metrics"})");
  asked = "nothing";
  for (const char* target : {"/api/set?window=1", "/api/trace", "/api/", "/x", "/../etc/passwd"}) {
    EXPECT_EQ(http_page(target, answer).status, 404) << target;
  }
  EXPECT_NE(http_page("/?x", answer).body.find("<!DOCTYPE html>"), std::string::npos);
  EXPECT_EQ(asked, "nothing");
}

TEST(HttpPages, SayWhereThereAreNoMetrics) {
  const auto refuses = [](std::string_view) { return std::string(R"({"ok":false})"); };
  EXPECT_EQ(http_page("/metrics", refuses).status, 503);
  const auto rambles = [](std::string_view) { return std::string("{"); };
  EXPECT_EQ(http_page("/metrics", rambles).status, 503);
}

class HttpServerTest : public ::testing::Test {
 protected:
  void start(const ClientLimits& limits, const std::string& body) {
    loop_ = *Loop::open();
    auto server = HttpServer::listen(
        *loop_, 0,
        [body](std::string_view target) {
          return HttpResponse{.body = body + std::string(target)};
        },
        limits);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    thread_ = std::thread([this] { loop_->run(); });
  }
  void TearDown() override {
    if (!thread_.joinable()) return;
    loop_->stop();
    thread_.join();
  }

  OwnedFd connect() const {
    OwnedFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return socket;
  }
  static std::string receive_all(const OwnedFd& socket) {
    std::string all;
    char piece[4096];
    for (ssize_t count; (count = recv(socket.get(), piece, sizeof piece, 0)) > 0;) {
      all.append(piece, static_cast<size_t>(count));
    }
    return all;
  }
  std::string exchange(std::string_view request) const {
    const OwnedFd socket = connect();
    send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL);
    return receive_all(socket);
  }

  std::unique_ptr<Loop> loop_;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

constexpr char get[] = "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n";

TEST_F(HttpServerTest, AnswersAndCloses) {
  start({}, std::string(1 << 20, 'a'));
  const std::string answer = exchange(get);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(answer.find("Content-Length: 1048578\r\n"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("aa/x"));
  const std::string head = exchange("HEAD /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_NE(head.find("Content-Length: 1048578\r\n"), std::string::npos);
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
}

TEST_F(HttpServerTest, TakesARequestInPieces) {
  start({}, "b");
  const OwnedFd socket = connect();
  for (const char letter : std::string(get)) send(socket.get(), &letter, 1, MSG_NOSIGNAL);
  EXPECT_TRUE(receive_all(socket).ends_with("b/x"));
}

TEST_F(HttpServerTest, RefusesWhatIsTooLong) {
  start({.request_bytes_max = 256}, "c");
  EXPECT_TRUE(exchange(std::string(256, 'x')).starts_with("HTTP/1.1 431 "));
}

TEST_F(HttpServerTest, ClosesWhoSaysNothingAndWhoTakesNothing) {
  start({.patience_ms = 50}, std::string(64 << 20, 'd'));
  const OwnedFd silent = connect();
  EXPECT_EQ(receive_all(silent), "");
  const OwnedFd lazy = connect();
  send(lazy.get(), get, sizeof get - 1, MSG_NOSIGNAL);
  // It does not read until it is closed; then there is no more than the sockets held.
  const OwnedFd later = connect();
  EXPECT_EQ(receive_all(later), "");
  EXPECT_LT(receive_all(lazy).size(), size_t{64} << 20);
}

TEST_F(HttpServerTest, TellsNoMoreClientsThanItHasRoomFor) {
  start({.clients_max = 2}, "e");
  const OwnedFd first = connect();
  const OwnedFd second = connect();
  EXPECT_EQ(receive_all(connect()), "");
  send(first.get(), get, sizeof get - 1, MSG_NOSIGNAL);
  EXPECT_TRUE(receive_all(first).ends_with("e/x"));
}

TEST(HttpServerAlone, APortThatIsTakenIsAnError) {
  const auto loop = *Loop::open();
  const auto nothing = [](std::string_view) { return HttpResponse{}; };
  auto first = HttpServer::listen(*loop, 0, nothing);
  ASSERT_TRUE(first) << first.error().message;
  const auto second = HttpServer::listen(*loop, (*first)->port(), nothing);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("address already in use"), std::string::npos);
}

}  // namespace
}  // namespace weightpager::control
