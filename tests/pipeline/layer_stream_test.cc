// A stream of layers against a real file: the right bytes, whatever the order in which layers are
// acquired and released, and an error instead of a wait that cannot end.
#include "runtime/pipeline/layer_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <random>
#include <thread>

#include "pager/base/units.h"
#include "tests/io/faulty_reader.h"
#include "tests/io/pattern_file.h"

namespace weightpager::pipeline {
namespace {

using io::Fault;
using io::PatternFile;
using Bytes = std::span<const std::byte>;

/// Layers of all sizes that begin and end anywhere, some without weights, some over the same bytes.
std::vector<LayerRange> some_layers(uint64_t file_bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<LayerRange> layers(3 + random() % 12);
  for (LayerRange& layer : layers) {
    if (random() % 5 == 0) continue;
    layer.length_bytes = 1 + random() % (random() % 2 == 0 ? 10'000 : 200'000);
    layer.offset_bytes = random() % (file_bytes - layer.length_bytes + 1);
  }
  layers.back() = {.name = "last", .offset_bytes = file_bytes - 5000, .length_bytes = 5000};
  return layers;
}

/// What a layer takes of the window.
uint64_t pages_bytes(const LayerRange& layer) {
  if (layer.length_bytes == 0) return 0;
  return round_up(layer.offset_bytes + layer.length_bytes, os_page_bytes) -
         round_down(layer.offset_bytes, os_page_bytes);
}

uint64_t largest_bytes(const std::vector<LayerRange>& layers) {
  uint64_t largest = 0;
  for (const LayerRange& layer : layers) largest = std::max(largest, pages_bytes(layer));
  return largest;
}

uint64_t sum_bytes(const std::vector<LayerRange>& layers) {
  uint64_t sum = 0;
  for (const LayerRange& layer : layers) sum += pages_bytes(layer);
  return sum;
}

void expect_bytes(Bytes bytes, const LayerRange& layer) {
  ASSERT_EQ(bytes.size(), layer.length_bytes);
  ASSERT_NE(bytes.data(), nullptr);
  ASSERT_EQ(io::first_difference(bytes, layer.offset_bytes), std::nullopt);
}

class LayerStreamTest : public testing::Test {
 protected:
  std::unique_ptr<LayerStream> open(std::vector<LayerRange> layers, uint64_t window_bytes) {
    return open({.path = file_.path(), .window_bytes = window_bytes, .layers = std::move(layers)});
  }
  std::unique_ptr<LayerStream> open(const LayerStreamOptions& options) {
    auto stream = LayerStream::open(options);
    EXPECT_TRUE(stream) << stream.error().message;
    return std::move(*stream);
  }
  /// Read `number` (from 0 on) meets `fault`.
  std::unique_ptr<LayerStream> open_faulty(std::vector<LayerRange> layers, uint64_t window_bytes,
                                           uint64_t number, Fault fault) {
    LayerStreamOptions options = {
        .path = file_.path(), .window_bytes = window_bytes, .layers = std::move(layers)};
    options.open_reader = io::faulty_pread(io::at_read(number, fault));
    return open(options);
  }
  /// `count` layers of `length_bytes`, one behind the other.
  static std::vector<LayerRange> equal_layers(uint64_t count, uint64_t length_bytes) {
    std::vector<LayerRange> layers;
    for (uint64_t i = 0; i < count; ++i) layers.push_back({"", i * length_bytes, length_bytes});
    return layers;
  }

  void expect_layer(LayerStream& stream, uint32_t layer) {
    const auto bytes = stream.acquire(layer);
    ASSERT_TRUE(bytes) << bytes.error().message;
    expect_bytes(*bytes, stream.layers()[layer]);
    ASSERT_TRUE(stream.release(layer));
  }
  void expect_pass(LayerStream& stream) {
    for (uint32_t i = 0; i < stream.layers().size(); ++i) expect_layer(stream, i);
  }

  PatternFile file_{2 * MiB + 777};
};

/// Acquires and releases at random, and knows what must come of it.
class Wanderer {
 public:
  Wanderer(LayerStream& stream, uint64_t seed) : stream_(stream), random_(seed) {
    const uint64_t sum = sum_bytes(stream.layers());
    fits_as_a_whole_ = sum <= stream.statistics().window_bytes;
  }

  void step() {
    const uint64_t choice = random_() % 16;
    if (choice == 0) return stream_.last_pass();
    if (choice == 1) return will_need(random_layer());
    if (choice < 7 && !held_.empty()) return release();
    // Mostly in order, as networks are.
    acquire(choice < 12 ? static_cast<uint32_t>(next_ % layers().size()) : random_layer());
  }
  void release_all() {
    while (!held_.empty() && !testing::Test::HasFatalFailure()) release();
  }
  uint64_t acquired() const { return acquired_; }
  uint64_t refused() const { return refused_; }
  size_t held_max() const { return held_max_; }

 private:
  const std::vector<LayerRange>& layers() const { return stream_.layers(); }
  uint32_t random_layer() { return static_cast<uint32_t>(random_() % layers().size()); }
  uint64_t number_of_next(uint32_t layer) const {
    uint64_t number = next_;
    while (number % layers().size() != layer) ++number;
    return number;
  }
  bool can_acquire(uint32_t layer) const {
    if (held_.empty()) return true;
    for (const auto& [number, bytes] : held_) {
      if (number % layers().size() == layer) return false;
    }
    const uint64_t first = held_.begin()->first;
    const uint64_t wanted = number_of_next(layer);
    if (wanted / layers().size() > first / layers().size() + 1) return false;
    uint64_t sum = 0;
    for (uint64_t i = first; i <= wanted; ++i) sum += pages_bytes(layers()[i % layers().size()]);
    return fits_as_a_whole_ || sum <= stream_.statistics().window_bytes;
  }
  void will_need(uint32_t layer) {
    ASSERT_TRUE(stream_.will_need(layer));
    next_ = number_of_next(layer);
  }
  void acquire(uint32_t layer) {
    const bool shall_come = can_acquire(layer);
    const auto bytes = stream_.acquire(layer);
    ASSERT_EQ(bytes.has_value(), shall_come) << (bytes ? "" : bytes.error().message);
    if (!bytes) {
      ++refused_;
      return;
    }
    ++acquired_;
    expect_bytes(*bytes, layers()[layer]);
    next_ = number_of_next(layer) + 1;
    held_[next_ - 1] = *bytes;
    held_max_ = std::max(held_max_, held_.size());
  }
  void release() {
    auto it = held_.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(random_() % held_.size()));
    const auto layer = static_cast<uint32_t>(it->first % layers().size());
    expect_bytes(it->second, layers()[layer]);  // all the time that it was held
    ASSERT_TRUE(stream_.release(layer));
    EXPECT_FALSE(stream_.release(layer));
    held_.erase(it);
  }

  LayerStream& stream_;
  std::mt19937_64 random_;
  bool fits_as_a_whole_ = false;
  uint64_t next_ = 0;
  std::map<uint64_t, Bytes> held_;  // by number
  uint64_t acquired_ = 0;
  uint64_t refused_ = 0;
  size_t held_max_ = 0;
};

TEST_F(LayerStreamTest, EveryLayerHasItsBytesInEveryOrder) {
  uint64_t acquired = 0, refused = 0;
  size_t held_max = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const std::vector<LayerRange> layers = some_layers(file_.size_bytes(), seed);
    const uint64_t window_bytes = largest_bytes(layers) * (2 + seed % 5) / 2;
    const auto stream = open(layers, window_bytes);
    Wanderer wanderer(*stream, seed);
    for (int step = 0; step < 150; ++step) {
      wanderer.step();
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << ", step " << step;
    }
    wanderer.release_all();
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    EXPECT_LE(stream->statistics().window_bytes, window_bytes);
    acquired += wanderer.acquired();
    refused += wanderer.refused();
    held_max = std::max(held_max, wanderer.held_max());
  }
  EXPECT_GT(acquired, 1500u) << "too tame a test";
  EXPECT_GT(refused, 300u) << "too tame a test";
  EXPECT_GT(held_max, 4u) << "too tame a test";
}

TEST_F(LayerStreamTest, TheLastLayerMayBeHeldWhileTheNextPassBegins) {
  const auto stream = open(equal_layers(4, 64 * KiB), 128 * KiB);
  for (int pass = 0; pass < 3; ++pass) {
    for (uint32_t layer = 0; layer < 4; ++layer) {
      const auto bytes = stream->acquire(layer);
      ASSERT_TRUE(bytes) << bytes.error().message;
      expect_bytes(*bytes, stream->layers()[layer]);
      if (pass + layer > 0) {
        ASSERT_TRUE(stream->release((layer + 3) % 4));
      }
    }
  }
  EXPECT_EQ(stream->statistics().passes, 3u);
}

TEST_F(LayerStreamTest, WhatCannotFitBesideWhatIsHeldIsRefused) {
  const auto stream = open(equal_layers(8, 64 * KiB), 192 * KiB);
  ASSERT_TRUE(stream->acquire(0));
  ASSERT_TRUE(stream->acquire(2));
  ASSERT_TRUE(stream->release(2));  // stays in the ring behind layer 0
  const auto refused = stream->acquire(3);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().error_number, ENOBUFS);
  EXPECT_EQ(refused.error().message,
            "layer 3 does not fit beside what is held (layer 0): from the first of these to it, "
            "with what lies between, layers take 256.0 KiB, and the window has 192.0 KiB");
  ASSERT_TRUE(stream->release(0));
  expect_layer(*stream, 3);
  EXPECT_EQ(stream->statistics().passes, 1u);
}

TEST_F(LayerStreamTest, WhatMakesNoSenseIsRefused) {
  const auto stream = open(equal_layers(4, 64 * KiB), 192 * KiB);
  EXPECT_FALSE(stream->acquire(4));
  EXPECT_FALSE(stream->will_need(4));
  EXPECT_FALSE(stream->release(4));
  EXPECT_FALSE(stream->release(0));
  ASSERT_TRUE(stream->acquire(0));
  const auto again = stream->acquire(0);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().message, "layer 0 is held already");
}

// All in memory: only how long something is held limits what comes beside it.
TEST_F(LayerStreamTest, AModelThatFitsIsReadOnce) {
  const auto stream = open(equal_layers(5, 100'000), 1 * MiB);
  for (int pass = 0; pass < 3; ++pass) expect_pass(*stream);
  // A read ends where its layer does; it begins with the page.
  uint64_t expected_bytes = 0;
  for (const LayerRange& it : stream->layers()) {
    expected_bytes += it.length_bytes + it.offset_bytes % os_page_bytes;
  }
  EXPECT_EQ(stream->statistics().passes, 3u);
  EXPECT_GE(stream->statistics().read_bytes, expected_bytes);
  EXPECT_LE(stream->statistics().read_bytes, sum_bytes(stream->layers()));
  EXPECT_EQ(stream->statistics().window_bytes, sum_bytes(stream->layers()));
  for (uint32_t layer = 0; layer < 5; ++layer) ASSERT_TRUE(stream->acquire(layer));
  for (uint32_t layer = 1; layer < 5; ++layer) {
    ASSERT_TRUE(stream->release(layer));
    ASSERT_TRUE(stream->acquire(layer));
  }
  ASSERT_TRUE(stream->release(1));
  const auto refused = stream->acquire(1);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("comes two passes after"), std::string::npos)
      << refused.error().message;
}

TEST_F(LayerStreamTest, ALastPassReadsNothingForTheNextOne) {
  const auto layers = equal_layers(16, 64 * KiB);
  const auto stream = open(layers, 256 * KiB);
  expect_pass(*stream);
  expect_layer(*stream, 0);
  stream->last_pass();
  for (uint32_t layer = 1; layer < 16; ++layer) expect_layer(*stream, layer);
  EXPECT_EQ(stream->statistics().read_bytes, 2 * sum_bytes(layers));
  // One more all the same, after which it is read on as usual.
  expect_pass(*stream);
  expect_layer(*stream, 0);
  EXPECT_EQ(stream->statistics().passes, 4u);
}

TEST_F(LayerStreamTest, AOnlyPassReadsEveryByteOnce) {
  const auto layers = equal_layers(16, 64 * KiB);
  const auto stream = open(layers, 256 * KiB);
  stream->last_pass();
  expect_pass(*stream);
  EXPECT_EQ(stream->statistics().read_bytes, sum_bytes(layers));
}

TEST_F(LayerStreamTest, WhatIsLetGoIsNotRead) {
  const auto layers = equal_layers(32, 64 * KiB);
  const auto stream = open(layers, 256 * KiB);
  stream->last_pass();
  ASSERT_TRUE(stream->will_need(30));
  expect_layer(*stream, 30);
  // What was read before the advice came filled the window at most.
  EXPECT_LE(stream->statistics().read_bytes, 256 * KiB + 2 * 64 * KiB);
  expect_layer(*stream, 31);
  EXPECT_EQ(stream->statistics().passes, 1u);
}

// The same thread holds a layer while it waits for the one whose read fails.
// Passes of which nothing is wanted end without a read or a kernel that would tell.
TEST_F(LayerStreamTest, WholePassesMayBeLetGo) {
  const auto stream = open(equal_layers(16, 64 * KiB), 128 * KiB);
  for (uint64_t pass = 1; pass <= 20; ++pass) {
    ASSERT_TRUE(stream->will_need(8));
    ASSERT_TRUE(stream->will_need(3));
    if (pass % 5 == 0) {
      expect_layer(*stream, 9);
    }
  }
  EXPECT_EQ(stream->statistics().passes, 1u + 20 + 3);  // after 9, 8 is in the pass that follows
}

TEST_F(LayerStreamTest, AReadErrorEndsThePassAndNotTheNext) {
  const auto stream = open_faulty(equal_layers(4, 64 * KiB), 128 * KiB, 2,
                                  {.kind = Fault::Kind::error, .error_number = EIO});
  ASSERT_TRUE(stream->acquire(0));
  const auto held = stream->acquire(1);
  ASSERT_TRUE(held) << held.error().message;
  ASSERT_TRUE(stream->release(0));  // only now there is space to read layer 2
  const auto failed = stream->acquire(2);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().error_number, EIO);
  EXPECT_EQ(failed.error().message, file_.path() + ", byte 131072: Input/output error");
  EXPECT_NE(failed.error().hint.find("dmesg"), std::string::npos);

  expect_bytes(*held, stream->layers()[1]);
  const auto refused = stream->acquire(2);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "the pass has failed, and of it there is still held: layer 1");
  EXPECT_FALSE(stream->will_need(0));
  ASSERT_TRUE(stream->release(1));
  for (int pass = 0; pass < 2; ++pass) expect_pass(*stream);
  EXPECT_EQ(stream->statistics().passes, 3u);
}

TEST_F(LayerStreamTest, AFileThatWasChangedIsAnErrorAndNoMixture) {
  const auto stream = open(equal_layers(4, 64 * KiB), 64 * KiB);
  ASSERT_TRUE(stream->acquire(0));
  usleep(20'000);  // a tick, where times have them
  const int fd = ::open(file_.path().c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(pwrite(fd, "x", 1, 0), 1);
  close(fd);
  ASSERT_TRUE(stream->release(0));  // only now there is space to read layer 1
  for (int i = 0; i < 2; ++i) {
    const auto failed = stream->acquire(1);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().error_number, ESTALE);
    EXPECT_NE(failed.error().message.find(file_.path() + ": was changed"), std::string::npos);
  }
}

TEST_F(LayerStreamTest, AFileThatWasCutOffIsAnError) {
  const auto stream = open_faulty(equal_layers(4, 64 * KiB), 64 * KiB, 2,
                                  {.kind = Fault::Kind::cut, .length_bytes = 100});
  expect_layer(*stream, 0);
  expect_layer(*stream, 1);
  const auto failed = stream->acquire(2);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("was cut off"), std::string::npos)
      << failed.error().message;
}

// Nobody has asked for the pass that is read ahead when it fails.
TEST_F(LayerStreamTest, AnErrorWhileReadingAheadIsToldToTheNextWhoAsks) {
  const auto stream = open_faulty(equal_layers(4, 64 * KiB), 64 * KiB, 4,
                                  {.kind = Fault::Kind::error, .error_number = EIO});
  expect_pass(*stream);
  const auto failed = stream->acquire(0);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, file_.path() + ", byte 0: Input/output error");
  expect_layer(*stream, 3);
}

TEST_F(LayerStreamTest, AWindowSmallerThanALayerIsRefused) {
  std::vector<LayerRange> layers = equal_layers(3, 64 * KiB);
  layers[1] = {.name = "block 1", .offset_bytes = 4095, .length_bytes = 64 * KiB};  // 17 pages
  LayerStreamOptions options{.path = file_.path(), .window_bytes = 17 * 4096 - 1, .layers = layers};
  const auto refused = LayerStream::open(options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, file_.path() +
                                         ": layer 1 (block 1) needs 68.0 KiB (69632 bytes), and "
                                         "the window has 68.0 KiB");
  EXPECT_NE(refused.error().hint.find("69632 bytes"), std::string::npos);
  options.window_bytes = 17 * 4096;
  expect_pass(*open(options));
}

TEST_F(LayerStreamTest, RangesOutsideTheFileAreRefused) {
  for (const LayerRange& range :
       {LayerRange{"", file_.size_bytes() - 10, 11}, LayerRange{"", UINT64_MAX - 5, 10},
        LayerRange{"", 0, UINT64_MAX}, LayerRange{"", file_.size_bytes() + 1, 0}}) {
    const auto refused =
        LayerStream::open({.path = file_.path(), .window_bytes = 4 * MiB, .layers = {range}});
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("reaches beyond the end"), std::string::npos)
        << refused.error().message;
  }
  EXPECT_FALSE(LayerStream::open({.path = file_.path() + ".absent", .window_bytes = 4 * MiB}));
}

TEST_F(LayerStreamTest, StreamsDoNotKnowEachOther) {
  std::vector<std::thread> threads;
  for (uint64_t seed = 101; seed <= 104; ++seed) {
    threads.emplace_back([this, seed] {
      const std::vector<LayerRange> layers = some_layers(file_.size_bytes(), seed);
      const auto stream = open(layers, 2 * largest_bytes(layers));
      Wanderer wanderer(*stream, seed);
      for (int step = 0; step < 200 && !HasFatalFailure(); ++step) wanderer.step();
      wanderer.release_all();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(LayerStreamTest, OneThreadMayReleaseWhatAnotherAcquired) {
  const auto layers = equal_layers(24, 64 * KiB);
  const auto stream = open(layers, 256 * KiB);
  constexpr uint64_t layers_wanted = 24 * 10;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<uint32_t, Bytes>> line;
  uint64_t held = 0;
  std::thread user([&] {
    for (uint64_t i = 0; i < layers_wanted; ++i) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !line.empty(); });
      const auto [layer, bytes] = line.front();
      line.pop_front();
      lock.unlock();
      expect_bytes(bytes, layers[layer]);
      EXPECT_TRUE(stream->release(layer));
      lock.lock();
      --held;
      changed.notify_all();
    }
  });
  for (uint64_t i = 0; i < layers_wanted; ++i) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return held < 4; });
      ++held;
    }
    const auto layer = static_cast<uint32_t>(i % 24);
    const auto bytes = stream->acquire(layer);
    EXPECT_TRUE(bytes) << bytes.error().message;
    const std::lock_guard lock(mutex);
    line.emplace_back(layer, bytes ? *bytes : Bytes());
    changed.notify_all();
  }
  user.join();
}

TEST_F(LayerStreamTest, CanBeClosedWhileItReads) {
  for (uint64_t layers_used = 0; layers_used < 20; ++layers_used) {
    const auto stream = open_faulty(equal_layers(16, 64 * KiB), 512 * KiB, layers_used,
                                    {.kind = Fault::Kind::late, .delay_ns = 20'000'000});
    for (uint32_t i = 0; i < layers_used; ++i) expect_layer(*stream, i % 16);
    if (layers_used % 2 == 1) {
      ASSERT_TRUE(stream->acquire(static_cast<uint32_t>(layers_used % 16)));
    }
  }
}

TEST_F(LayerStreamTest, WaitingIsMeasured) {
  const auto stream = open_faulty(equal_layers(3, 64 * KiB), 64 * KiB, 1,
                                  {.kind = Fault::Kind::late, .delay_ns = 30'000'000});
  stream->last_pass();
  expect_layer(*stream, 0);
  const uint64_t before_ns = stream->statistics().stall_ns;
  expect_layer(*stream, 1);
  EXPECT_GE(stream->statistics().stall_ns - before_ns, 10'000'000u);
}

}  // namespace
}  // namespace weightpager::pipeline
