// What the socket tells of a pager, against what others say of it: the kernel's account of reads
// and memory, the engine's own count and clock.
#include "pager/control/pager_answers.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/io/faulty_reader.h"
#include "tests/pager/model_file_fixture.h"

namespace weightpager::control {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t chunk_bytes = 2 * MiB;
constexpr uint32_t layers = 6;
constexpr uint64_t layer_bytes = 8 * MiB;
constexpr uint64_t file_bytes = layers * layer_bytes;
constexpr uint32_t chunks = file_bytes / chunk_bytes;

/// Layers of two tensors each, of which the second does not begin with a chunk.
model::Model six_layers(const std::string& path) {
  model::Model model;
  model.files.push_back({path, file_bytes});
  for (uint32_t layer = 0; layer < layers; ++layer) {
    const uint64_t begin = layer * layer_bytes;
    const uint64_t seam = begin + 3 * MiB;
    const std::string name = "layer " + std::to_string(layer);
    for (const auto& [from, to] : {std::pair{begin, seam}, std::pair{seam, begin + layer_bytes}}) {
      model.tensors.push_back({.name = name + (from == begin ? " a" : " b"),
                               .type = "U8",
                               .shape = {to - from},
                               .offset_bytes = from,
                               .size_bytes = to - from});
    }
    model.layers.push_back(
        {.name = name, .tensors = {2 * layer, 2 * layer + 1}, .size_bytes = layer_bytes});
  }
  return model;
}

class PagerAnswersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    telemetry_ = *telemetry::create("");
    WP_SKIP_FOR(lack_of_userfaultfd());
  }

  void start(uint64_t window_bytes, const std::string& policy, const PagerOptions& more = {}) {
    PagerOptions options = more;
    options.window_bytes = window_bytes;
    options.window_bytes_max = 2 * file_bytes;
    options.policy = policy;
    options.telemetry = telemetry_;
    pager_ = started(options);
    const model::Model model = six_layers(file_.path());
    RegionRequest request;
    request.path = request.name = file_.path();
    request.length_bytes = file_bytes;
    request.model = &model;
    auto address = pager_->add_region(request);
    ASSERT_TRUE(address) << address.error().message;
    region_ = *address;
    answers_ = std::make_unique<PagerAnswers>(*pager_, *telemetry_);
  }

  void TearDown() override {
    answers_.reset();
    if (region_ != nullptr) pager_->remove(region_, file_bytes);
    pager_.reset();
    telemetry::close(telemetry_);
  }

  void touch(uint32_t chunk) const {
    (void)*reinterpret_cast<const volatile char*>(region_ + chunk * chunk_bytes);
  }
  void pass() const {
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) touch(chunk);
  }

  Json answer(const std::string& line) { return Json::parse(answers_->answer(line)); }
  Json ask(const std::string& line) {
    const Json json = answer(line);
    EXPECT_EQ(json.at("ok"), true) << json;
    return json;
  }
  std::string error(const std::string& line) {
    const Json json = answer(line);
    EXPECT_EQ(json.at("ok"), false) << json;
    return json.value("error", "") + " | " + json.value("hint", "");
  }
  /// What is known of chunks may be older; changes have to be some time apart.
  static void let_it_age() { std::this_thread::sleep_for(std::chrono::milliseconds(60)); }

  /// When nothing is being read any more, and the pager has counted what it did; by layer.
  Json settled_residency() {
    for (;;) {
      let_it_age();
      const Json json = ask(R"({"request":"residency"})");
      uint64_t reading_bytes = 0;
      for (const Json& row : json.at("rows"))
        reading_bytes += row.at("reading_bytes").get<uint64_t>();
      if (reading_bytes == 0) return json;
    }
  }
  static uint64_t sum(const Json& rows, const char* key) {
    uint64_t all = 0;
    for (const Json& row : rows.at("rows")) all += row.at(key).get<uint64_t>();
    return all;
  }

  PatternFile file_{file_bytes};
  telemetry::Telemetry* telemetry_ = nullptr;
  std::unique_ptr<Pager> pager_;
  std::byte* region_ = nullptr;
  std::unique_ptr<PagerAnswers> answers_;
};

uint64_t bytes_read_from_disk() {
  std::ifstream io("/proc/self/io");
  std::string key;
  uint64_t value = 0;
  while (io >> key >> value) {
    if (key == "read_bytes:") return value;
  }
  return 0;
}

/// Of the mappings that lie in the range.
uint64_t resident_in(const std::byte* begin, uint64_t length_bytes) {
  std::ifstream smaps("/proc/self/smaps");
  const auto from = reinterpret_cast<uintptr_t>(begin);
  uint64_t kib = 0;
  bool is_inside = false;
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t start = 0, end = 0;
    uint64_t value = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &start, &end) == 2) {
      is_inside = start >= from && end <= from + length_bytes;
    } else if (is_inside && std::sscanf(line.c_str(), "Rss: %lu", &value) == 1) {
      kib += value;
    }
  }
  return kib * KiB;
}

TEST_F(PagerAnswersTest, BytesReadAreThoseOfTheKernelsAccount) {
  auto direct = io::ModelFile::open(file_.path());
  ASSERT_TRUE(direct);
  WP_SKIP_FOR(lack_unless(direct->is_direct(), "no direct reads beside the build"));
  const uint64_t before = bytes_read_from_disk();
  start(32 * MiB, "expert");
  for (int i = 0; i < 4; ++i) pass();
  settled_residency();
  const uint64_t read_bytes = ask(R"({"request":"stat"})").at("read_bytes");
  const uint64_t account = bytes_read_from_disk() - before;
  EXPECT_GE(account, read_bytes);
  // The process may page in some of its own code besides.
  EXPECT_LT(account - read_bytes, 4 * MiB);
  EXPECT_GE(read_bytes, file_bytes + 3 * (file_bytes - 32 * MiB));
}

TEST_F(PagerAnswersTest, MappedBytesAreTheKernelsResidentOnes) {
  PagerOptions options;
  options.mapper = "move";
  start(32 * MiB, "expert", options);
  for (int i = 0; i < 3; ++i) pass();
  const Json residency = settled_residency();
  EXPECT_EQ(sum(residency, "mapped_bytes"), resident_in(region_, file_bytes));
  const Json stat = ask(R"({"request":"stat"})");
  EXPECT_EQ(stat.at("resident_bytes"),
            sum(residency, "mapped_bytes") + sum(residency, "ready_bytes"));
  EXPECT_LE(stat.at("resident_bytes"), 32 * MiB);
  uint64_t in_states = 0;
  for (const char* state :
       {"absent_bytes", "reading_bytes", "ready_bytes", "mapped_bytes", "failed_bytes"}) {
    in_states += sum(residency, state);
  }
  EXPECT_EQ(in_states, file_bytes);
  // The same by tensor and by chunk, one letter each.
  EXPECT_EQ(residency.at("rows").at(4).at("chunks"), Json::parse("[[16, 4]]"));
  const Json tensors = ask(R"({"request":"residency","by":"tensor"})");
  EXPECT_EQ(tensors.at("rows").at(8).at("chunks"), Json::parse("[[16, 2]]"));
  EXPECT_EQ(tensors.at("rows").at(9).at("chunks"), Json::parse("[[17, 3]]"));
  EXPECT_EQ(tensors.at("rows").size(), 2 * layers);
  EXPECT_EQ(sum(tensors, "mapped_bytes"), sum(residency, "mapped_bytes"));
  const std::string states = ask(R"({"request":"residency","by":"chunk"})").at("states");
  EXPECT_EQ(states.size(), chunks);
  const auto mapped = static_cast<uint64_t>(
      std::count_if(states.begin(), states.end(), [](char it) { return it == 'm' || it == 'M'; }));
  EXPECT_EQ(mapped * chunk_bytes, sum(residency, "mapped_bytes"));
}

// A policy that reads nothing ahead: each first touch waits, and no other.
TEST_F(PagerAnswersTest, FaultsAreThoseThatTheEngineCounts) {
  start(2 * file_bytes, "demand");
  pass();
  pass();
  settled_residency();
  const Json stat = ask(R"({"request":"stat"})");
  EXPECT_EQ(stat.at("faults_demand"), chunks);
  EXPECT_EQ(stat.at("faults_late"), 0u);
  EXPECT_EQ(stat.at("evictions"), 0u);
  const Json histograms = ask(R"({"request":"histograms"})").at("histograms");
  EXPECT_EQ(histograms.at("wait_demand_ns").at("count"), chunks);
  EXPECT_EQ(histograms.at("wait_late_ns").at("count"), 0u);
  EXPECT_EQ(histograms.at("wait_tripwire_ns").at("count"), stat.at("faults_tripwire"));
  EXPECT_EQ(histograms.at("read_latency_ns").at("count"), chunks);
}

/// Of this thread, by the kernel's account.
uint64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<uint64_t>(usage.ru_minflt + usage.ru_majflt);
}

// Everything that a row of `weightpager stat` shows beside bytes and stalls, where the pager reads
// ahead. Chunks that were read were waited for, or were there in time, or went unused.
TEST_F(PagerAnswersTest, WaitsAreTheKernelsFaultsAndPassesTheEngines) {
  PagerOptions options;
  options.mapper = "move";  // a chunk is mapped as a whole: one wait is one fault
  start(32 * MiB, "pin-stream", options);
  pass();
  settled_residency();
  const Json before = ask(R"({"request":"stat"})");
  const uint64_t faults_before = page_faults();
  constexpr uint64_t passes = 20;
  for (uint64_t i = 0; i < passes; ++i) pass();
  const uint64_t faults = page_faults() - faults_before;
  settled_residency();
  const Json stat = ask(R"({"request":"stat"})");
  const auto grown = [&](const char* key) {
    return stat.at(key).get<uint64_t>() - before.at(key).get<uint64_t>();
  };
  EXPECT_EQ(grown("passes"), passes);
  EXPECT_EQ(grown("faults_demand") + grown("faults_late") + grown("faults_tripwire"), faults);
  EXPECT_GT(grown("faults_tripwire") + grown("faults_late"), 0u);
  EXPECT_EQ(stat.at("window_bytes"), 32 * MiB);
  const uint64_t resident_chunks = stat.at("resident_bytes").get<uint64_t>() / chunk_bytes;
  const uint64_t read_chunks = stat.at("read_bytes").get<uint64_t>() / chunk_bytes;
  EXPECT_EQ(stat.at("evictions"), read_chunks - resident_chunks);
  const uint64_t in_time_or_here = read_chunks - stat.at("faults_demand").get<uint64_t>() -
                                   stat.at("faults_late").get<uint64_t>() -
                                   stat.at("prefetch_unused").get<uint64_t>();
  EXPECT_LE(stat.at("prefetch_hidden"), in_time_or_here);
  EXPECT_GE(stat.at("prefetch_hidden").get<uint64_t>() + resident_chunks, in_time_or_here);
}

TEST_F(PagerAnswersTest, StallsAreWithinTheEnginesOwnClock) {
  constexpr int64_t delay_ns = 5'000'000;
  PagerOptions options;
  options.open_reader = io::faulty_pread([](uint64_t, const io::Read&) {
    return io::Fault{.kind = io::Fault::Kind::late, .delay_ns = delay_ns};
  });
  start(2 * file_bytes, "demand", options);
  const auto begin = std::chrono::steady_clock::now();
  pass();
  const Json residency = settled_residency();
  const auto until_then_ns =
      static_cast<uint64_t>((std::chrono::steady_clock::now() - begin).count());
  const Json stat = ask(R"({"request":"stat"})");
  EXPECT_GE(stat.at("stall_ns"), chunks * uint64_t{delay_ns});
  EXPECT_LE(stat.at("stall_ns"), until_then_ns);
  EXPECT_EQ(sum(residency, "stall_ns"), stat.at("stall_ns"));
  const Json waits = ask(R"({"request":"histograms"})").at("histograms").at("wait_demand_ns");
  EXPECT_EQ(waits.at("sum_ns"), stat.at("stall_ns"));
  EXPECT_GE(waits.at("p50_ns"), uint64_t{delay_ns});
}

TEST_F(PagerAnswersTest, CursorIsWhatWasTouchedLast) {
  start(2 * file_bytes, "demand");
  EXPECT_EQ(ask(R"({"request":"hello"})").at("models").at(0).at("layers"), layers);
  touch(3 * layer_bytes / chunk_bytes);
  const Json cursor = ask(R"({"request":"stat"})").at("cursor");
  EXPECT_EQ(cursor.at("layer"), 3u);
  EXPECT_EQ(cursor.at("name"), "layer 3");
  EXPECT_EQ(cursor.at("layers"), layers);
}

TEST_F(PagerAnswersTest, TraceHasEveryTouchAndItsEnd) {
  start(2 * file_bytes, "demand");
  touch(0);
  const Json trace = ask(R"({"request":"trace","do":"start"})").at("trace");
  for (uint32_t chunk = 1; chunk < chunks; ++chunk) touch(chunk);
  const Json taken = ask(R"({"request":"trace","do":"take","trace":)" + trace.dump() + "}");
  EXPECT_EQ(taken.at("lost"), 0u);
  std::map<std::string, std::vector<Json>> by_kind;
  uint64_t last_ns = 0;
  for (const Json& event : taken.at("events")) {
    by_kind[event.at(1)].push_back(event);
    EXPECT_LE(last_ns, event.at(0).get<uint64_t>());
    last_ns = event.at(0);
  }
  ASSERT_EQ(by_kind["touch"].size(), chunks - 1);
  for (const char* kind : {"served", "read", "arrive", "map"}) {
    EXPECT_EQ(by_kind[kind].size(), chunks - 1) << kind;
  }
  const Json& first = by_kind["touch"].front();
  EXPECT_EQ(first.at(2), 0u);  // model
  EXPECT_EQ(first.at(3), 0u);  // layer
  EXPECT_EQ(first.at(4), 1u);  // chunk
  EXPECT_EQ(first.at(6), static_cast<uint64_t>(syscall(SYS_gettid)));
  EXPECT_EQ(first.at(7), "absent");
  ask(R"({"request":"trace","do":"start"})");
  EXPECT_NE(
      error(R"({"request":"trace","do":"take","trace":)" + trace.dump() + "}").find("has ended"),
      std::string::npos);
  ask(R"({"request":"trace","do":"stop"})");
}

// Threads come to chunks while the pager is busy with those of others.
TEST_F(PagerAnswersTest, TraceOfManyThreadsIsInOrderOfTime) {
  start(window_bytes_min, "demand");
  const Json trace = ask(R"({"request":"trace","do":"start"})").at("trace");
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int pass = 0; pass < 8; ++pass) {
        for (uint32_t chunk = thread; chunk < chunks; chunk += 4) touch(chunk);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Json taken = ask(R"({"request":"trace","do":"take","trace":)" + trace.dump() + "}");
  EXPECT_EQ(taken.at("lost"), 0u);
  uint64_t last_ns = 0;
  for (const Json& event : taken.at("events")) {
    EXPECT_LE(last_ns, event.at(0).get<uint64_t>()) << event;
    last_ns = event.at(0);
  }
  ask(R"({"request":"trace","do":"stop"})");
}

TEST_F(PagerAnswersTest, WindowShrinksAndGrowsWhileItServes) {
  start(64 * MiB, "expert");
  pass();
  let_it_age();
  Json change = ask(R"({"request":"set","window":"32MiB"})");
  EXPECT_EQ(change.at("old"), 64 * MiB);
  EXPECT_EQ(change.at("new"), 32 * MiB);
  pass();
  settled_residency();
  EXPECT_LE(ask(R"({"request":"stat"})").at("resident_bytes"), 32 * MiB);
  change = ask(R"({"request":"set","window":"80MiB"})");
  EXPECT_EQ(change.at("new"), 80 * MiB);
  // Memory for it comes bit by bit.
  do {
    pass();
  } while (sum(settled_residency(), "absent_bytes") > 0);
  for (uint64_t at = 0; at < file_bytes; at += 64 * KiB) {
    ASSERT_EQ(*reinterpret_cast<const volatile uint64_t*>(region_ + at), word_at(at));
  }
}

TEST_F(PagerAnswersTest, PolicyChangesThereAndBack) {
  start(32 * MiB, "auto");
  pass();
  let_it_age();
  Json change = ask(R"({"request":"set","policy":"lru"})");
  EXPECT_EQ(change.at("old"), "auto");
  EXPECT_EQ(change.at("new"), "lru");
  EXPECT_EQ(ask(R"({"request":"stat"})").at("policy"), "lru");
  pass();
  let_it_age();
  change = ask(R"({"request":"set","policy":"auto"})");
  EXPECT_EQ(change.at("old"), "lru");
  EXPECT_EQ(change.at("new"), "auto");
  for (int i = 0; i < 5; ++i) pass();
}

TEST_F(PagerAnswersTest, WhatIsPinnedStaysAndWhatIsEvictedGoes) {
  start(32 * MiB, "expert");
  pass();
  let_it_age();
  const Json pinned = ask(R"({"request":"set","pin":"layers:4"})");
  EXPECT_EQ(pinned.at("old"), "none");
  EXPECT_EQ(pinned.at("new"), "layers:4");
  EXPECT_EQ(pinned.at("pinned_bytes"), layer_bytes);
  EXPECT_EQ(pinned.at("wanted_bytes"), layer_bytes);
  for (int i = 0; i < 3; ++i) pass();
  Json rows = settled_residency().at("rows");
  EXPECT_EQ(rows.at(4).at("pinned_bytes"), layer_bytes);
  EXPECT_EQ(rows.at(4).at("absent_bytes"), 0u);
  const Json evicted = ask(R"({"request":"set","evict":"layers:4"})");
  EXPECT_EQ(evicted.at("evicted_bytes"), layer_bytes);
  EXPECT_EQ(evicted.at("old").get<uint64_t>() - evicted.at("new").get<uint64_t>(), layer_bytes);
  pass();
  EXPECT_EQ(settled_residency().at("rows").at(4).at("absent_bytes"), 0u);
  for (uint64_t at = 0; at < file_bytes; at += 64 * KiB) {
    ASSERT_EQ(*reinterpret_cast<const volatile uint64_t*>(region_ + at), word_at(at));
  }
}

TEST_F(PagerAnswersTest, WhatIsDroppedIsAllButWhatIsPinned) {
  start(32 * MiB, "expert");
  let_it_age();
  ask(R"({"request":"set","pin":"layers:4"})");
  for (int i = 0; i < 3; ++i) pass();
  const Json before = settled_residency();
  const uint64_t resident_bytes = sum(before, "mapped_bytes") + sum(before, "ready_bytes");
  ASSERT_GT(resident_bytes, layer_bytes);
  ASSERT_LT(sum(before, "pinned_bytes"), resident_bytes);
  uint64_t stays_bytes = 0;  // whole layers are pinned, or the policy's own share
  for (const char letter :
       ask(R"({"request":"residency","by":"chunk"})").at("states").get<std::string>()) {
    if (letter == 'M' || letter == 'Y') stays_bytes += chunk_bytes;
  }
  const Json dropped = ask(R"({"request":"set","drop":"unpinned"})");
  EXPECT_EQ(dropped.at("old"), resident_bytes);
  EXPECT_EQ(dropped.at("new"), stays_bytes);
  EXPECT_EQ(dropped.at("evicted_bytes"), resident_bytes - stays_bytes);
  for (uint64_t at = 0; at < file_bytes; at += 64 * KiB) {
    ASSERT_EQ(*reinterpret_cast<const volatile uint64_t*>(region_ + at), word_at(at));
  }
}

TEST_F(PagerAnswersTest, WhatIsNotPossibleIsRefusedWithWhatIs) {
  start(32 * MiB, "lru");
  const std::tuple<const char*, const char*, const char*> wrong[] = {
      {R"({"request":"dance"})", "dance", "hello, stat"},
      {R"({"request":"stat","x":1})", "unknown key 'x'", "it takes none"},
      {R"({"request":"residency","by":"row"})", "row", "layer, tensor, chunk"},
      {R"({"request":"residency","model":1})", "model 1", "from 0 to 0"},
      {R"({"request":"residency","first":-1})", "first", ""},
      {R"({"request":"trace"})", "what to do", "start, take or stop"},
      {R"({"request":"trace","do":"take"})", "has ended", ""},
      {R"({"request":"set"})", "nothing to set", "window"},
      {R"({"request":"set","window":"1MiB"})", "1.0 MiB", "from 32.0 MiB to 96.0 MiB"},
      {R"({"request":"set","window":"1GB"})", "GB", "512MiB"},
      {R"({"request":"set","policy":"belady"})", "belady", "there are auto"},
      {R"({"request":"set","pin":"layers:0"})", "policy lru has no room", "pin-stream"},
      {R"({"request":"set","pin":"layers:9"})", "no layers that there are", "0 to 5"},
      {R"({"request":"set","evict":"some"})", "names no layers", "all"},
      {R"({"request":"set","drop":"all"})", "unknown all", "unpinned"},
      {"{", "byte", "a request is one line"},
  };
  for (const auto& [line, what, hint] : wrong) {
    let_it_age();
    const std::string said = error(line);
    EXPECT_NE(said.find(what), std::string::npos) << line << ": " << said;
    EXPECT_NE(said.find(hint), std::string::npos) << line << ": " << said;
  }
  EXPECT_EQ(ask(R"({"request":"residency","first":99})").at("rows").size(), 0u);
  ask(R"({"request":"set","evict":"none"})");
  EXPECT_NE(error(R"({"request":"set","evict":"none"})").find("50 ms"), std::string::npos);
}

}  // namespace
}  // namespace weightpager::control
