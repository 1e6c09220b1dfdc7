// Profiles come back as they were kept; what is damaged, foreign or no file of one's own is refused
// or measured again.
#include "runtime/plan/profile.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/network/parser.h"
#include "runtime/plan/profile_cache.h"
#include "runtime/plan/profiler.h"
#include "tests/model/temporary_directory.h"

namespace weightpager::plan {
namespace {

namespace fs = std::filesystem;
using ops::Layout;

Profile some_profile() {
  Profile profile{.machine = "a machine"};
  profile.convolutions["one"] = {{{"im2col", Layout::nchw, Layout::nhwc, 4096, 128}, 1234.5},
                                 {{"jit", Layout::nChw8c, Layout::nChw16c, 0, 64}, 7}};
  profile.changes["3x4x5"][1][2] = 99.25;
  profile.others["maxpool of 3x4x5"] = {55.5, 44.5, 33, 22};
  profile.in_place["a network"]["one by jit"] = 77.25;
  return profile;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Profile, ComesBackAsItWasWritten) {
  const std::string text = profile_text(some_profile());
  const auto read = parse_profile(text, "a machine", "profile.json");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(profile_text(*read), text);
  EXPECT_EQ(read->convolutions.at("one")[0].time_ns, 1234.5);
  EXPECT_EQ(read->changes.at("3x4x5")[1][2], 99.25);
  EXPECT_EQ(read->in_place.at("a network").at("one by jit"), 77.25);
  EXPECT_EQ(read->others.at("maxpool of 3x4x5"), (LayoutTimes{55.5, 44.5, 33, 22}));
}

TEST(Profile, OfAnotherMachineIsRefused) {
  const auto refused = parse_profile(profile_text(some_profile()), "another", "profile.json");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "profile.json is the profile of another machine, expected 'another'");
}

TEST(Profile, DamageIsRefused) {
  const std::string good = profile_text(some_profile());
  const std::pair<const char*, const char*> damages[] = {
      {"\"schema_version\": 4", "\"schema_version\": 1"},
      {"1234.5", "-1"},
      {"1234.5", "\"1234.5\""},
      {"1234.5", "1e300"},
      {"4096", "-4096"},
      {"4096", "18446744073709551615"},
      {"\"nhwc\"", "\"chwn\""},
      {"\"nhwc\"", "7"},
      {"\"im2col\"", "[]"},
      {"99.25", "null"},
      {"99.25", "1, 2"},
      {"\"convolutions\"", "\"convolution\""},
      {"\"layout_changes_ns\"", "\"changes\""},
      {"55.5", "true"},
      {"55.5", "-1"},
      {"55.5", "1, 2"},
      {"\"others_ns\"", "\"others\""},
      {"77.25", "-77.25"},
      {"77.25", "[]"},
      {"\"in_place_ns\"", "\"in_place\""},
  };
  for (const auto& [from, to] : damages) {
    EXPECT_FALSE(parse_profile(replaced(good, from, to), "a machine", "profile.json"))
        << from << " → " << to;
  }
  EXPECT_FALSE(parse_profile("", "a machine", "profile.json"));
  EXPECT_FALSE(parse_profile("[]", "a machine", "profile.json"));
  EXPECT_FALSE(parse_profile(std::string(100'000, '['), "a machine", "profile.json"));
}

TEST(Profile, AnyCutAndAnyByteIsRefusedOrRead) {
  const std::string good = profile_text(some_profile());
  EXPECT_TRUE(rc::check([&] {
    std::string text = good;
    const auto at = *rc::gen::inRange<size_t>(0, text.size() - 2);
    RC_ASSERT(!parse_profile(text.substr(0, at), "a machine", "profile.json"));
    text[at] = static_cast<char>(*rc::gen::inRange(1, 128));
    const auto read = parse_profile(text, "a machine", "profile.json");
    if (!read) return;
    for (const auto& [key, candidates] : read->convolutions) {
      for (const MeasuredCandidate& it : candidates) RC_ASSERT(it.time_ns >= 0);
    }
  }));
}

TEST(ProfileCache, KeepsWhatItIsGiven) {
  const model::TemporaryDirectory scratch;
  const std::string path = scratch.path("new/directory/profile.json");
  ASSERT_TRUE(write_profile_cache(path, some_profile()));
  EXPECT_EQ(profile_text(read_profile_cache(path, "a machine")), profile_text(some_profile()));
}

TEST(ProfileCache, WhatIsNoFileOfOnesOwnIsLeftAlone) {
  const model::TemporaryDirectory scratch;
  const std::string real = scratch.path("real.json");
  ASSERT_TRUE(write_profile_cache(real, some_profile()));
  const auto is_empty = [](const std::string& path) {
    const Profile profile = read_profile_cache(path, "a machine");
    return profile.machine == "a machine" && profile.convolutions.empty() &&
           profile.changes.empty();
  };
  EXPECT_FALSE(is_empty(real));
  EXPECT_TRUE(is_empty(""));
  EXPECT_TRUE(is_empty(scratch.path("missing.json")));
  const std::string link = scratch.path("link.json");
  fs::create_symlink(real, link);
  EXPECT_TRUE(is_empty(link));
  const std::string pipe = scratch.path("pipe.json");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(is_empty(pipe));
  const std::string large = scratch.write("large.json", "{");
  fs::resize_file(large, uint64_t{1} << 40);
  EXPECT_TRUE(is_empty(large));
  EXPECT_TRUE(is_empty(scratch.write("garbage.json", "not JSON")));
  if (geteuid() != 0) return;
  ASSERT_EQ(chown(real.c_str(), 65534, 65534), 0);
  EXPECT_TRUE(is_empty(real));
}

TEST(ProfileCache, IsTheUsersAndTheMachines) {
  setenv("XDG_CACHE_HOME", "/caches", 1);
  const std::string one = profile_cache_path("one");
  EXPECT_TRUE(one.starts_with("/caches/weightpager/primitives-")) << one;
  EXPECT_NE(one, profile_cache_path("two"));
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/home/somebody", 1);
  EXPECT_TRUE(profile_cache_path("one").starts_with("/home/somebody/.cache/weightpager/"));
  unsetenv("HOME");
  EXPECT_EQ(profile_cache_path("one"), "");
}

constexpr const char* profiled_network =
    "[net]\nheight=12\nwidth=12\nchannels=3\n"
    "[convolutional]\nfilters=16\nsize=3\nstride=1\npad=1\nactivation=relu\n"
    "[maxpool]\nsize=2\nstride=2\n"
    "[convolutional]\nfilters=8\nsize=1\nstride=1\nactivation=linear\n";

TEST(Profiler, MeasuresOnceAndTakesTimesFromTheCache) {
  const model::TemporaryDirectory scratch;
  const auto network = network::parse_network(profiled_network, "small.cfg");
  ASSERT_TRUE(network) << network.error().message;
  const ProfilerOptions options{.threads = 1, .cache_path = scratch.path("profile.json")};
  const auto measured = profile_network(*network, options);
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_EQ(measured->convolutions.size(), 2u);
  EXPECT_EQ(measured->changes.size(), 4u);  // input, 16 channels, pooled, 8 channels
  for (const auto& [key, candidates] : measured->convolutions) {
    EXPECT_GT(candidates.size(), 3u) << key;
    for (const MeasuredCandidate& it : candidates) EXPECT_GT(it.time_ns, 0) << it.traits.name;
  }

  // What is in the cache comes back, though nothing takes so long.
  Profile changed = *measured;
  auto& [first_key, first] = *changed.convolutions.begin();
  auto& [second_key, second] = *std::next(changed.convolutions.begin());
  first[0].time_ns = 5e9;
  second[0].time_ns = 6e9;
  // Of other candidates than there are today, nothing is taken.
  second[0].traits.workspace_bytes += 64;
  changed.changes.begin()->second[0][1] = 7e9;
  ASSERT_TRUE(write_profile_cache(options.cache_path, changed));
  const auto again = profile_network(*network, options);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->convolutions.at(first_key)[0].time_ns, 5e9);
  EXPECT_NE(again->convolutions.at(second_key)[0].time_ns, 6e9);
  EXPECT_EQ(again->changes.at(changed.changes.begin()->first)[0][1], 7e9);
}

TEST(Profiler, NamesWhatTimesDependOn) {
  EXPECT_NE(machine_words(1), machine_words(2));
  EXPECT_NE(machine_words(1).find("oneDNN "), std::string::npos);
}

}  // namespace
}  // namespace weightpager::plan
