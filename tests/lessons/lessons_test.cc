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
#include <set>

#include "pager/base/units.h"
#include "pager/lessons/kept_lesson.h"
#include "pager/lessons/lesson_record.h"
#include "pager/lessons/lesson_shelf.h"
#include "tests/model/temporary_directory.h"

namespace weightpager::lessons {
namespace {

using policy::ChunkId;
using policy::Lesson;

constexpr uint64_t chunk_bytes = 2 * MiB;

TaughtFile file_of(uint32_t chunks, uint64_t layout) {
  return {"/models/\"" + std::to_string(layout) + "\"\n.gguf", layout, chunks * chunk_bytes - 5};
}

KeptLesson some_lesson() {
  const std::vector<NumberedFile> files{{file_of(10, 0xabc), 0}, {file_of(6, 7), 10}};
  return kept_lesson({{0, 1, 2, 12, 13, 9, 8}, {5, 5, 5, 5, 5, 70, 70}}, chunk_bytes, files);
}

std::string some_text() { return lesson_text(some_lesson()); }

void replace(std::string& text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

TEST(KeptLesson, JoinsNeighboursThatComputeAlike) {
  const KeptLesson lesson = some_lesson();
  ASSERT_EQ(lesson.runs.size(), 4u);
  EXPECT_EQ(lesson.runs[1].file, 1u);
  EXPECT_EQ(lesson.runs[1].first_chunk, 2u);
  EXPECT_EQ(lesson.runs[1].chunks, 2u);
  EXPECT_EQ(lesson.runs[1].computed_ns, 5);
  EXPECT_NE(some_text().find("[0, 9, 1, 70]"), std::string::npos) << some_text();
}

// Of files that are served in another order, and with others between them, next time.
RC_GTEST_PROP(KeptLesson, ComesBackAsItWas, ()) {
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
  Lesson lesson;
  lesson.order.resize(first);
  std::iota(lesson.order.begin(), lesson.order.end(), 0u);
  if (random() % 2 == 0) std::shuffle(lesson.order.begin(), lesson.order.end(), random);
  lesson.order.resize(1 + random() % first);
  for (size_t i = 0; i < lesson.order.size(); ++i) {
    lesson.computed_ns.push_back(static_cast<float>(random() % 3 * 1'000'003));
  }
  const auto kept = parse_lesson(lesson_text(kept_lesson(lesson, chunk_bytes, files)), "it");
  RC_ASSERT(kept.has_value());
  const Lesson same = lesson_for(*kept, files);
  RC_ASSERT(same.order == lesson.order && same.computed_ns == lesson.computed_ns);

  constexpr ChunkId moved = 1000;
  for (NumberedFile& it : files) it.first_chunk += moved;
  const Lesson elsewhere = lesson_for(*kept, files);
  RC_ASSERT(elsewhere.order.size() == lesson.order.size());
  for (size_t i = 0; i < lesson.order.size(); ++i) {
    RC_ASSERT(elsewhere.order[i] == lesson.order[i] + moved);
  }
}

TEST(KeptLesson, LeavesOutFilesThatAreNotServed) {
  const Lesson lesson = lesson_for(some_lesson(), std::vector<NumberedFile>{{file_of(6, 7), 50}});
  EXPECT_EQ(lesson.order, (std::vector<ChunkId>{52, 53}));
  EXPECT_EQ(lesson.computed_ns, (std::vector<float>{5, 5}));
}

TEST(KeptLesson, RefusesWhatIsNone) {
  const std::pair<const char*, const char*> damages[] = {
      {"\"weightpager_lesson\": 1", "\"weightpager_lesson\": 2"},
      {"\"weightpager_lesson\": 1, ", ""},
      {"\"weightpager_lesson\": 1", "\"weightpager_lesson\": \"1\""},
      {"\"chunk_bytes\": 2097152", "\"chunk_bytes\": 0"},
      {"\"chunk_bytes\": 2097152", "\"chunk_bytes\": 2097151"},
      {"\"chunk_bytes\": 2097152", "\"chunk_bytes\": -1"},
      {"\"chunk_bytes\": 2097152,\n", ""},
      {"[0, 0, 3, 5]", "[2, 0, 3, 5]"},           // no such file
      {"[0, 0, 3, 5]", "[0, 0, 11, 5]"},          // longer than its file
      {"[0, 0, 3, 5]", "[0, 4294967295, 2, 5]"},  // beyond it
      {"[0, 0, 3, 5]", "[0, 0, 0, 5]"},
      {"[0, 0, 3, 5]", "[0, 0, 9, 5]"},  // twice
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
  ASSERT_TRUE(parse_lesson(some_text(), "it"));
  for (const auto& [from, to] : damages) {
    std::string text = some_text();
    replace(text, from, to);
    const auto lesson = parse_lesson(text, "learned.json");
    ASSERT_FALSE(lesson) << to;
    EXPECT_NE(lesson.error().message.find("learned.json"), std::string::npos) << to;
    EXPECT_EQ(lesson.error().hint, "rm learned.json");
  }
  for (const char* text : {"", "[]", "null", "{}", "\"weightpager_lesson\""}) {
    EXPECT_FALSE(parse_lesson(text, "it")) << text;
  }
  EXPECT_FALSE(parse_lesson(std::string(100'000, '['), "it"));
}

// Whatever is accepted is a lesson: no chunk twice, none beyond its file.
RC_GTEST_PROP(KeptLesson, OfDamagedTextsTakesOnlyLessons, ()) {
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
  const auto lesson = parse_lesson(text, "it");
  if (!lesson) return;
  std::set<std::pair<uint32_t, uint32_t>> seen;
  for (const TaughtRun& run : lesson->runs) {
    for (uint32_t i = 0; i < run.chunks; ++i) {
      const uint32_t chunk = run.first_chunk + i;
      RC_ASSERT(chunk * lesson->chunk_bytes < lesson->files.at(run.file).size_bytes);
      RC_ASSERT(seen.emplace(run.file, chunk).second);
    }
  }
}

TEST(TaughtFile, IsKnownByWhatIsWhereInIt) {
  model::Model model;
  model.format = model::Format::gguf;
  model.tensors.push_back({.name = "a", .type = "F16", .shape = {8}, .size_bytes = 16});
  const TaughtFile file = taught_file("/models/one.gguf", 100, model);
  EXPECT_TRUE(file.is_like(taught_file("/elsewhere/copy.gguf", 100, model)));
  EXPECT_FALSE(file.is_like(taught_file("/models/one.gguf", 101, model)));
  model.tensors[0].offset_bytes = 32;
  EXPECT_FALSE(file.is_like(taught_file("/models/one.gguf", 100, model)));
  // What does not say what is in it is taken for another unless it has the name, too.
  const TaughtFile plain = taught_file("/models/one.weights", 100, {});
  EXPECT_TRUE(plain.is_like(taught_file("/copies/one.weights", 100, {})));
  EXPECT_FALSE(plain.is_like(taught_file("/models/other.weights", 100, {})));
}

class Shelf : public testing::Test {
 protected:
  std::string path_of(const KeptLesson& lesson) const {
    return lesson_path(scratch_.path("."), lesson.chunk_bytes, lesson.files);
  }
  bool is_found() const {
    const KeptLesson lesson = some_lesson();
    return find_lesson(scratch_.path("."), lesson.chunk_bytes, lesson.files).has_value();
  }
  void write(const std::string& text) const {
    scratch_.write(std::filesystem::path(path_of(some_lesson())).filename(), text);
  }

  model::TemporaryDirectory scratch_;
};

TEST_F(Shelf, FindsWhatWasKeptOfTheseFiles) {
  EXPECT_FALSE(is_found());
  write(some_text());
  EXPECT_TRUE(is_found());
  KeptLesson other = some_lesson();
  std::swap(other.files[0], other.files[1]);
  EXPECT_EQ(path_of(other), path_of(some_lesson()));
  other.files.pop_back();
  EXPECT_NE(path_of(other), path_of(some_lesson()));
  other = some_lesson();
  other.chunk_bytes = 128 * KiB;
  EXPECT_NE(path_of(other), path_of(some_lesson()));
}

TEST_F(Shelf, TakesNothingDamagedForeignOrSomebodyElses) {
  write(some_text().substr(0, some_text().size() / 2));
  EXPECT_FALSE(is_found());
  std::string of_another_model = some_text();
  replace(of_another_model, "0000000000000abc", "0000000000000abd");
  write(of_another_model);
  EXPECT_FALSE(is_found());
  write(some_text());
  const std::string path = path_of(some_lesson());
  const std::string elsewhere = scratch_.path("elsewhere");
  std::filesystem::rename(path, elsewhere);
  std::filesystem::create_symlink(elsewhere, path);
  EXPECT_FALSE(is_found());
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(is_found());
}

TEST(LessonRecord, OutlivesAnEngineThatIsKilled) {
  const model::TemporaryDirectory scratch;
  const pid_t child = fork();
  if (child == 0) {
    auto record = LessonRecord::create(scratch.path("."));
    if (!record || !(*record)->put("an earlier lesson") || !(*record)->put("123456789")) _exit(1);
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto record = LessonRecord::open(scratch.path(std::to_string(child) + ".lesson"));
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ((*record)->text(), "123456789");
}

TEST(LessonRecord, HasNothingWhereNothingFits) {
  const model::TemporaryDirectory scratch;
  auto record = LessonRecord::create(scratch.path("."));
  ASSERT_TRUE(record);
  EXPECT_EQ((*record)->text(), std::nullopt);
  const std::string longest(LessonRecord::text_bytes_max, 'x');
  EXPECT_TRUE((*record)->put(longest));
  EXPECT_EQ((*record)->text(), longest);
  EXPECT_FALSE((*record)->put(longest + "x"));
  EXPECT_EQ((*record)->text(), std::nullopt);
}

TEST(LessonRecord, IsToldFromOtherFiles) {
  const model::TemporaryDirectory scratch;
  EXPECT_FALSE(LessonRecord::open(scratch.write("1.lesson", "short")));
  EXPECT_FALSE(
      LessonRecord::open(scratch.write("2.lesson", std::string(sizeof(LessonRecord), '\0'))));
  EXPECT_FALSE(LessonRecord::open(scratch.path("missing.lesson")));
}

}  // namespace
}  // namespace weightpager::lessons
