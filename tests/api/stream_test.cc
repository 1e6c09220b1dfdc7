// Streams through the C API, as a stranger uses them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>
#include <weightpager/weightpager.hpp>

#include "pager/model/synthetic/make_model.h"
#include "tests/model/temporary_directory.h"
#include "tests/pager/model_file_fixture.h"

namespace weightpager {
namespace {

std::string error() { return weightpager_error(); }

/// Of the file at `path`.
std::vector<std::byte> bytes_of(const std::string& path, const weightpager_layer& layer) {
  std::vector<std::byte> bytes(layer.length_bytes);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(layer.offset_bytes)),
            static_cast<ssize_t>(bytes.size()));
  close(fd);
  return bytes;
}

void expect_layer(api::Stream& stream, const std::string& path, uint32_t number) {
  const auto layer = stream.acquire(number);
  ASSERT_TRUE(layer) << error();
  const std::vector<std::byte> expected = bytes_of(path, stream.layers()[number]);
  ASSERT_TRUE(
      std::equal(expected.begin(), expected.end(), layer->bytes().begin(), layer->bytes().end()));
}

TEST(ApiStream, GivesTheLayersOfAModelInASmallWindow) {
  const model::TemporaryDirectory directory;
  const std::string path = directory.path("model.gguf");
  const auto made = model::make_model({.path = path, .size_bytes = 24 * MiB});
  ASSERT_TRUE(made) << made.error().message;
  // One layer has the embedding, which is a third of so small a model.
  auto stream = api::Stream::open(path.c_str(), 12 * MiB);
  ASSERT_TRUE(stream) << error();
  ASSERT_GT(stream->layers().size(), 3u);
  EXPECT_STREQ(stream->layers()[0].name, "embedding");
  for (int pass = 0; pass < 2; ++pass) {
    for (uint32_t layer = 0; layer < stream->layers().size(); ++layer) {
      expect_layer(*stream, path, layer);
      ASSERT_FALSE(testing::Test::HasFatalFailure()) << "layer " << layer;
    }
  }
  const weightpager_stream_statistics statistics = stream->statistics();
  EXPECT_EQ(statistics.window_bytes, 12 * MiB);
  EXPECT_EQ(statistics.passes, 2u);
  EXPECT_GE(statistics.read_bytes, 2 * 23 * MiB);
}

constexpr weightpager_layer three_layers[] = {
    {"first", 100, 300'000}, {nullptr, 0, 0}, {"third", 300'100, 700'000}};

TEST(ApiStream, ALayerIsHeldUntilItsObjectGoes) {
  const PatternFile file(2 * MiB);
  auto opened = api::Stream::open(file.path().c_str(), 2 * MiB, three_layers);
  ASSERT_TRUE(opened) << error();
  api::Stream stream = std::move(*opened);
  {
    auto first = stream.acquire(0);
    ASSERT_TRUE(first) << error();
    EXPECT_FALSE(stream.acquire(0));
    EXPECT_EQ(errno, EBUSY);
    const auto empty = stream.acquire(1);
    ASSERT_TRUE(empty) << error();
    EXPECT_TRUE(empty->bytes().empty());
    auto third = stream.acquire(2);
    ASSERT_TRUE(third) << error();
    *first = std::move(*third);  // layer 0 goes with `third`
    EXPECT_EQ(first->layer(), 2u);
  }
  for (uint32_t layer = 0; layer < 3; ++layer) expect_layer(stream, file.path(), layer);
}

TEST(ApiStream, RefusesWithReasons) {
  const PatternFile file(2 * MiB);
  EXPECT_FALSE(api::Stream::open("no-such-file.gguf", MiB));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_NE(error().find("no-such-file.gguf"), std::string::npos) << error();
  EXPECT_FALSE(api::Stream::open(file.path().c_str(), 4 * MiB));
  EXPECT_NE(error().find("give the stream the layers as byte ranges"), std::string::npos)
      << error();
  EXPECT_FALSE(api::Stream::open(file.path().c_str(), 600 * KiB, three_layers));
  EXPECT_NE(error().find("layer 2 (third) needs 688.0 KiB"), std::string::npos) << error();

  weightpager_stream* handle = nullptr;
  weightpager_stream_options options = {sizeof options, 3, 2 * MiB, nullptr};
  EXPECT_EQ(weightpager_stream_open(file.path().c_str(), &options, &handle), -1);
  EXPECT_NE(error().find("contradict each other"), std::string::npos) << error();
  options.layers = three_layers;
  options.struct_bytes -= 1;
  EXPECT_EQ(weightpager_stream_open(file.path().c_str(), &options, &handle), -1);
  EXPECT_NE(error().find("struct_bytes"), std::string::npos) << error();
  options.struct_bytes += 1;
  ASSERT_EQ(weightpager_stream_open(file.path().c_str(), &options, &handle), 0) << error();
  EXPECT_EQ(weightpager_stream_layers(handle, nullptr), 3u);
  EXPECT_EQ(weightpager_stream_release(handle, 0), -1);
  EXPECT_NE(error().find("layer 0 (first) is not held"), std::string::npos) << error();
  EXPECT_EQ(weightpager_stream_advise(handle, static_cast<weightpager_stream_advice>(0), 0), -1);
  EXPECT_EQ(weightpager_stream_advise(handle, WEIGHTPAGER_STREAM_WILL_NEED, 3), -1);
  EXPECT_EQ(errno, EINVAL);
  weightpager_stream_close(handle);
  weightpager_stream_close(nullptr);
}

TEST(ApiStream, AdviceGoesThere) {
  const PatternFile file(2 * MiB);
  auto stream = api::Stream::open(file.path().c_str(), 2 * MiB, three_layers);
  ASSERT_TRUE(stream) << error();
  stream->last_pass();
  ASSERT_TRUE(stream->will_need(2)) << error();
  expect_layer(*stream, file.path(), 2);
  EXPECT_EQ(stream->statistics().passes, 1u);
  expect_layer(*stream, file.path(), 0);
  EXPECT_EQ(stream->statistics().passes, 2u);
}

TEST(ApiStream, OlderCallersGetTheFieldsTheyKnow) {
  const PatternFile file(2 * MiB);
  const weightpager_stream_options options = {sizeof options, 3, 2 * MiB, three_layers};
  weightpager_stream* stream = nullptr;
  ASSERT_EQ(weightpager_stream_open(file.path().c_str(), &options, &stream), 0) << error();
  weightpager_stream_statistics statistics;
  statistics.struct_bytes = 16;
  statistics.read_bytes = 77;
  weightpager_stream_get_statistics(stream, &statistics);
  EXPECT_GT(statistics.window_bytes, 1'000'000u);
  EXPECT_EQ(statistics.read_bytes, 77u);
  weightpager_stream_close(stream);
}

TEST(ApiStream, ErrorsAreOfTheirThread) {
  EXPECT_FALSE(api::Stream::open("no-such-file.gguf", MiB));
  std::thread([] { EXPECT_EQ(error(), ""); }).join();
}

}  // namespace
}  // namespace weightpager
