// What one run learned reaches the next as it was; what is damaged or another model's does not.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <numeric>
#include <random>

#include "pager/base/units.h"
#include "pager/profiles/access_profile_directory.h"
#include "pager/profiles/access_profile_record.h"
#include "pager/profiles/stored_access_profile.h"
#include "tests/model/temporary_directory.h"

namespace weightpager::profiles {
namespace {

using policy::AccessProfile;
using policy::ChunkId;

constexpr uint64_t chunk_bytes = 2 * MiB;

ProfiledFile file_of(uint32_t chunks, uint64_t layout) {
  return {"/models/\"" + std::to_string(layout) + "\"\n.gguf", layout, chunks * chunk_bytes - 5};
}

StoredAccessProfile some_access_profile() {
  const std::vector<NumberedFile> files{{file_of(10, 0xabc), 0}, {file_of(6, 7), 10}};
  return stored_access_profile({{0, 1, 2, 12, 13, 9, 8}, {5, 5, 5, 5, 5, 70, 70}}, chunk_bytes,
                               files);
}

std::string some_text() { return access_profile_text(some_access_profile()); }

void replace(std::string& text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

TEST(StoredAccessProfile, JoinsNeighboursThatComputeAlike) {
  const StoredAccessProfile access_profile = some_access_profile();
  ASSERT_EQ(access_profile.runs.size(), 4u);
  EXPECT_EQ(access_profile.runs[1].file, 1u);
  EXPECT_EQ(access_profile.runs[1].first_chunk, 2u);
  EXPECT_EQ(access_profile.runs[1].chunks, 2u);
  EXPECT_EQ(access_profile.runs[1].computed_ns, 5);
  EXPECT_NE(some_text().find("[0, 9, 1, 70]"), std::string::npos) << some_text();
}

// Of files that are served in another order, and with others between them, next time.
RC_GTEST_PROP(StoredAccessProfile, ComesBackAsItWas, ()) {
  const auto sizes =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<uint32_t>>(rc::gen::inRange(1u, 40u)));
  std::vector<NumberedFile> files;
  ChunkId first = 0;
  for (const uint32_t chunks : sizes) {
    // Some are alike.
    files.push_back({file_of(chunks, chunks % 7), first});
    first += chunks;
  }
  std::mt19937_64 random(*rc::gen::arbitrary<uint32_t>());
  AccessProfile access_profile;
  access_profile.order.resize(first);
  std::iota(access_profile.order.begin(), access_profile.order.end(), 0u);
  if (random() % 2 == 0)
    std::shuffle(access_profile.order.begin(), access_profile.order.end(), random);
  access_profile.order.resize(1 + random() % first);
  for (size_t i = 0; i < access_profile.order.size(); ++i) {
    access_profile.computed_ns.push_back(static_cast<float>(random() % 3 * 1'000'003));
  }
  const auto kept = parse_access_profile(
      access_profile_text(stored_access_profile(access_profile, chunk_bytes, files)), "it");
  RC_ASSERT(kept.has_value());
  const AccessProfile same = access_profile_for(*kept, files);
  RC_ASSERT(same.order == access_profile.order && same.computed_ns == access_profile.computed_ns);

  constexpr ChunkId moved = 1000;
  for (NumberedFile& it : files) it.first_chunk += moved;
  const AccessProfile elsewhere = access_profile_for(*kept, files);
  RC_ASSERT(elsewhere.order.size() == access_profile.order.size());
  for (size_t i = 0; i < access_profile.order.size(); ++i) {
    RC_ASSERT(elsewhere.order[i] == access_profile.order[i] + moved);
  }
}

TEST(StoredAccessProfile, LeavesOutFilesThatAreNotServed) {
  const AccessProfile access_profile =
      access_profile_for(some_access_profile(), std::vector<NumberedFile>{{file_of(6, 7), 50}});
  EXPECT_EQ(access_profile.order, (std::vector<ChunkId>{52, 53}));
  EXPECT_EQ(access_profile.computed_ns, (std::vector<float>{5, 5}));
}

TEST(StoredAccessProfile, RefusesWhatIsNone) {
  const std::pair<const char*, const char*> damages[] = {
      {"\"weightpager_access_profile\": 1", "\"weightpager_access_profile\": 2"},
      {"\"weightpager_access_profile\": 1, ", ""},
      {"\"weightpager_access_profile\": 1", "\"weightpager_access_profile\": \"1\""},
      {"\"chunk_bytes\": 2097152", "\"chunk_bytes\": 0"},
      {"\"chunk_bytes\": 2097152", "\"chunk_bytes\": 2097151"},
      {"\"chunk_bytes\": 2097152", "\"chunk_bytes\": -1"},
      {"\"chunk_bytes\": 2097152,\n", ""},
      {"[0, 0, 3, 5]", "[2, 0, 3, 5]"},           // no such file
      {"[0, 0, 3, 5]", "[0, 0, 11, 5]"},          // longer than its file
      {"[0, 0, 3, 5]", "[0, 4294967295, 2, 5]"},  // beyond it
      {"[0, 0, 3, 5]", "[0, 0, 0, 5]"},
      // More than four visits of each chunk.
      {"[0, 0, 3, 5]",
       "[0, 0, 9, 5], [0, 0, 9, 5], [0, 0, 9, 5], [0, 0, 9, 5], [0, 0, 9, 5], [0, 0, 9, 5], [0, "
       "0, 9, 5], [0, 0, 9, 5], [0, 0, 9, 5], [0, 0, 9, 5], [0, 0, 9, 5]"},
      {"[0, 0, 3, 5]", "[0, 0, 3]"},
      {"[0, 0, 3, 5]", "[0, 0, 3, 5, 6]"},
      {"[0, 0, 3, 5]", "[0, 0, 3, -5]"},
      {"[0, 0, 3, 5]", "[0, 0, 3, 5.5]"},
      {"[0, 0, 3, 5]", "[0, 0, 3, 1e300]"},
      {"[0, 0, 3, 5]", "[0, 0, 3, 86400000000001]"},
      {"[0, 0, 3, 5]", "[0, 4294967296, 3, 5]"},
      {"[0, 0, 3, 5]", "[0, [0], 3, 5]"},
      {"[0, 0, 3, 5]", "{}"},
      {"[0, 0, 3, 5]", "0"},
      {"\"layout\": \"0000000000000abc\"", "\"layout\": \"10000000000000abc\""},
      {"\"layout\": \"0000000000000abc\"", "\"layout\": \"xyz\""},
      {"\"layout\": \"0000000000000abc\"", "\"layout\": 12"},
      {"\"layout\": \"0000000000000abc\"", "\"colour\": \"red\""},
      {"\"pass\"", "\"files\""},
      {"]}\n", "]"},
      {"]}\n", "]}}"},
  };
  ASSERT_TRUE(parse_access_profile(some_text(), "it"));
  for (const auto& [from, to] : damages) {
    std::string text = some_text();
    replace(text, from, to);
    const auto access_profile = parse_access_profile(text, "learned.json");
    ASSERT_FALSE(access_profile) << to;
    EXPECT_NE(access_profile.error().message.find("learned.json"), std::string::npos) << to;
    EXPECT_EQ(access_profile.error().hint, "rm learned.json");
  }
  for (const char* text : {"", "[]", "null", "{}", "\"weightpager_access_profile\""}) {
    EXPECT_FALSE(parse_access_profile(text, "it")) << text;
  }
  EXPECT_FALSE(parse_access_profile(std::string(100'000, '['), "it"));
}

// Whatever is accepted is an access profile: no chunk lies beyond its file, and there are not many
// more visits than chunks.
RC_GTEST_PROP(StoredAccessProfile, OfDamagedTextsTakesOnlyAccessProfiles, ()) {
  std::string text = some_text();
  const auto damages = *rc::gen::inRange(1, 4);
  for (int i = 0; i < damages; ++i) {
    const auto at = *rc::gen::inRange<size_t>(0, text.size());
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        text[at] = *rc::gen::element('0', '9', ',', ']', '"', '\0');
        break;
      case 1:
        text.erase(at, 1);
        break;
      default:
        text.insert(at, text.substr(at, 10));
    }
  }
  const auto access_profile = parse_access_profile(text, "it");
  if (!access_profile) return;
  uint64_t visits = 0, chunks = 0;
  for (const ProfiledFile& file : access_profile->files) {
    chunks += file.size_bytes / access_profile->chunk_bytes + 1;
  }
  for (const ProfiledRun& run : access_profile->runs) {
    for (uint32_t i = 0; i < run.chunks; ++i) {
      const uint32_t chunk = run.first_chunk + i;
      RC_ASSERT(chunk * access_profile->chunk_bytes <
                access_profile->files.at(run.file).size_bytes);
      ++visits;
    }
  }
  RC_ASSERT(visits <= 4 * chunks);
}

TEST(ProfiledFile, IsKnownByWhatIsWhereInIt) {
  model::Model model;
  model.format = model::Format::gguf;
  model.tensors.push_back({.name = "a", .type = "F16", .shape = {8}, .size_bytes = 16});
  const ProfiledFile file = profiled_file("/models/one.gguf", 100, model);
  EXPECT_TRUE(file.is_like(profiled_file("/elsewhere/copy.gguf", 100, model)));
  EXPECT_FALSE(file.is_like(profiled_file("/models/one.gguf", 101, model)));
  model.tensors[0].offset_bytes = 32;
  EXPECT_FALSE(file.is_like(profiled_file("/models/one.gguf", 100, model)));
  // What does not say what is in it is taken for another unless it has the name, too.
  const ProfiledFile plain = profiled_file("/models/one.weights", 100, {});
  EXPECT_TRUE(plain.is_like(profiled_file("/copies/one.weights", 100, {})));
  EXPECT_FALSE(plain.is_like(profiled_file("/models/other.weights", 100, {})));
}

class Shelf : public testing::Test {
 protected:
  std::string path_of(const StoredAccessProfile& access_profile) const {
    return access_profile_path(scratch_.path("."), access_profile.chunk_bytes,
                               access_profile.files);
  }
  bool is_found() const {
    const StoredAccessProfile access_profile = some_access_profile();
    return find_access_profile(scratch_.path("."), access_profile.chunk_bytes, access_profile.files)
        .has_value();
  }
  void write(const std::string& text) const {
    scratch_.write(std::filesystem::path(path_of(some_access_profile())).filename(), text);
  }

  model::TemporaryDirectory scratch_;
};

TEST_F(Shelf, FindsWhatWasKeptOfTheseFiles) {
  EXPECT_FALSE(is_found());
  write(some_text());
  EXPECT_TRUE(is_found());
  StoredAccessProfile other = some_access_profile();
  std::swap(other.files[0], other.files[1]);
  EXPECT_EQ(path_of(other), path_of(some_access_profile()));
  other.files.pop_back();
  EXPECT_NE(path_of(other), path_of(some_access_profile()));
  other = some_access_profile();
  other.chunk_bytes = 128 * KiB;
  EXPECT_NE(path_of(other), path_of(some_access_profile()));
}

TEST_F(Shelf, TakesNothingDamagedForeignOrSomebodyElses) {
  write(some_text().substr(0, some_text().size() / 2));
  EXPECT_FALSE(is_found());
  std::string of_another_model = some_text();
  replace(of_another_model, "0000000000000abc", "0000000000000abd");
  write(of_another_model);
  EXPECT_FALSE(is_found());
  write(some_text());
  const std::string path = path_of(some_access_profile());
  const std::string elsewhere = scratch_.path("elsewhere");
  std::filesystem::rename(path, elsewhere);
  std::filesystem::create_symlink(elsewhere, path);
  EXPECT_FALSE(is_found());
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(is_found());
}

TEST(AccessProfileRecord, OutlivesAnEngineThatIsKilled) {
  const model::TemporaryDirectory scratch;
  const pid_t child = fork();
  if (child == 0) {
    auto record = AccessProfileRecord::create(scratch.path("."));
    if (!record || !(*record)->put("an earlier access profile") || !(*record)->put("123456789"))
      _exit(1);
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto record =
      AccessProfileRecord::open(scratch.path(std::to_string(child) + ".access-profile"));
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ((*record)->text(), "123456789");
}

TEST(AccessProfileRecord, HasNothingWhereNothingFits) {
  const model::TemporaryDirectory scratch;
  auto record = AccessProfileRecord::create(scratch.path("."));
  ASSERT_TRUE(record);
  EXPECT_EQ((*record)->text(), std::nullopt);
  const std::string longest(AccessProfileRecord::text_bytes_max, 'x');
  EXPECT_TRUE((*record)->put(longest));
  EXPECT_EQ((*record)->text(), longest);
  EXPECT_FALSE((*record)->put(longest + "x"));
  EXPECT_EQ((*record)->text(), std::nullopt);
}

TEST(AccessProfileRecord, IsToldFromOtherFiles) {
  const model::TemporaryDirectory scratch;
  EXPECT_FALSE(AccessProfileRecord::open(scratch.write("1.access-profile", "short")));
  EXPECT_FALSE(AccessProfileRecord::open(
      scratch.write("2.access-profile", std::string(sizeof(AccessProfileRecord), '\0'))));
  EXPECT_FALSE(AccessProfileRecord::open(scratch.path("missing.access-profile")));
}

}  // namespace
}  // namespace weightpager::profiles
