// Copies on other drives: which ones are found, and which ones are refused.
#include "pager/io/mirrors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "pager/base/units.h"
#include "pager/io/file_checksum.h"

namespace weightpager::io {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t mirrored_bytes = 5 * MiB + 4097;  // no multiple of anything

class Mirrors : public ::testing::Test {
 protected:
  Mirrors() {
    std::string path = testing::TempDir() + "mirrors.XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    top_ = path;
    for (const char* name : {"models/one", "b", "c", "cache"}) fs::create_directories(top_ / name);
  }
  ~Mirrors() override { fs::remove_all(top_); }

  std::string at(const std::string& name) const { return (top_ / name).string(); }

  std::string write(const std::string& name, char of, uint64_t bytes = mirrored_bytes) const {
    fs::create_directories((top_ / name).parent_path());
    std::string content(bytes, of);
    for (uint64_t i = 0; i < bytes; i += 511) content[i] = static_cast<char>(i / 511);
    std::ofstream(at(name), std::ios::binary) << content;
    return at(name);
  }

  Result<std::vector<CheckedCopy>> check(const std::vector<std::string>& files,
                                         const std::vector<std::string>& directories) {
    read_bytes_ = 0;
    return check_copies(files, directories, at("cache"),
                        [&](uint64_t read_bytes, uint64_t) { read_bytes_ = read_bytes; });
  }

  /// What is said of the copy `b/model.bin` of `model`.
  std::string refusal_of(const std::string& model) {
    const auto copies = check({model}, {at("b")});
    EXPECT_FALSE(copies);
    if (copies) return "";
    EXPECT_FALSE(copies.error().hint.empty());
    return copies.error().message;
  }

  fs::path top_;
  uint64_t read_bytes_ = 0;
};

TEST_F(Mirrors, ACopyIsFoundByTheLongestPartOfThePath) {
  const std::string model = write("models/one/x/model.bin", 'a', 10);
  EXPECT_EQ(find_copy(model, at("b")), "");
  EXPECT_EQ(find_copy(model, at("nowhere")), "");
  const std::string by_name = write("b/model.bin", 'a', 10);
  EXPECT_EQ(find_copy(model, at("b")), by_name);
  const std::string by_folder = write("b/x/model.bin", 'a', 10);
  EXPECT_EQ(find_copy(model, at("b")), by_folder);
  const std::string by_two = write("b/one/x/model.bin", 'a', 10);
  EXPECT_EQ(find_copy(model, at("b")), by_two);
}

TEST_F(Mirrors, SoundCopiesAreTaken) {
  const std::string model = write("models/model.bin", 'a');
  const std::string other = write("models/other.bin", 'o');
  write("b/model.bin", 'a');
  write("c/model.bin", 'a');
  write("c/other.bin", 'o');
  const auto copies = check({model, other}, {at("b"), at("c")});
  ASSERT_TRUE(copies) << copies.error().message;
  ASSERT_EQ(copies->size(), 3u);
  const auto of_model = copies_of(*copies, *settled_identity_of(model));
  ASSERT_EQ(of_model.size(), 2u);
  EXPECT_EQ(of_model[0].path, at("b/model.bin"));
  EXPECT_EQ(of_model[0].drive, 1u);
  EXPECT_EQ(of_model[1].path, at("c/model.bin"));
  EXPECT_EQ(of_model[1].drive, 2u);
  EXPECT_EQ(copies_of(*copies, *settled_identity_of(other)).size(), 1u);
  write("models/model.bin", 'a');
  EXPECT_TRUE(copies_of(*copies, *settled_identity_of(model)).empty()) << "it was changed";
}

TEST_F(Mirrors, WhatWasCheckedIsNotReadAgain) {
  const std::string model = write("models/model.bin", 'a');
  write("b/model.bin", 'a');
  ASSERT_TRUE(check({model}, {at("b")}));
  uint64_t read_bytes = 0;
  const auto count = [&](uint64_t bytes) { read_bytes += bytes; };
  ASSERT_TRUE(checksum_of(model, at("cache"), count));
  EXPECT_EQ(read_bytes, 0u);
  ASSERT_TRUE(checksum_of(model, "", count));
  EXPECT_EQ(read_bytes, mirrored_bytes);
}

TEST_F(Mirrors, AKeptChecksumThatIsDamagedIsMadeAnew) {
  const std::string model = write("models/model.bin", 'a');
  const auto ignore = [](uint64_t) {};
  const auto first = checksum_of(model, at("cache"), ignore);
  ASSERT_TRUE(first);
  for (const auto& kept : fs::directory_iterator(at("cache")))
    fs::resize_file(kept.path(), fs::file_size(kept.path()) - 2);
  uint64_t read_bytes = 0;
  const auto again = checksum_of(model, at("cache"), [&](uint64_t bytes) { read_bytes += bytes; });
  ASSERT_TRUE(again);
  EXPECT_EQ(read_bytes, mirrored_bytes);
  EXPECT_TRUE(again->is_of_same_content(*first));
}

TEST_F(Mirrors, OneWrongByteIsRefused) {
  const std::string model = write("models/model.bin", 'a');
  const std::string copy = write("b/model.bin", 'a');
  for (const uint64_t offset : {uint64_t{0}, 2 * MiB + 17, mirrored_bytes - 1}) {
    std::fstream file(copy, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const auto byte = static_cast<char>(file.get());
    const auto put = [&](char it) {
      file.seekp(static_cast<std::streamoff>(offset));
      file.put(it).flush();
    };
    put(static_cast<char>(byte ^ 1));
    EXPECT_NE(refusal_of(model).find("has other bytes than"), std::string::npos) << offset;
    put(byte);
    EXPECT_TRUE(check({model}, {at("b")})) << offset;
  }
}

TEST_F(Mirrors, ACopyThatWasCutShortIsRefused) {
  const std::string model = write("models/model.bin", 'a');
  write("b/model.bin", 'a', mirrored_bytes - 1);
  EXPECT_NE(refusal_of(model).find("cut short"), std::string::npos);
}

TEST_F(Mirrors, ADirectoryWithoutACopyIsRefused) {
  const std::string model = write("models/model.bin", 'a');
  EXPECT_NE(refusal_of(model).find("has no copy of"), std::string::npos);
}

TEST_F(Mirrors, TheFileItselfIsNoCopy) {
  const std::string model = write("models/model.bin", 'a');
  fs::create_hard_link(model, at("b/model.bin"));
  EXPECT_NE(refusal_of(model).find("itself"), std::string::npos);
}

TEST_F(Mirrors, TheListOfCopiesIsReadAsItWasWritten) {
  const std::string model = write("models/a\nmodel.bin", 'a');
  write("b/a\nmodel.bin", 'a');
  write("c/a\nmodel.bin", 'a');
  const auto copies = check({model}, {at("b"), at("c")});
  ASSERT_TRUE(copies) << copies.error().message;
  const std::string text = format_copies(*copies);
  const auto read = parse_copies(text, "list");
  ASSERT_TRUE(read);
  ASSERT_EQ(read->size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ((*read)[i].path, (*copies)[i].path);
    EXPECT_EQ((*read)[i].drive, (*copies)[i].drive);
    EXPECT_TRUE((*read)[i].identity.holds_until((*copies)[i].identity));
    EXPECT_TRUE((*read)[i].original.holds_until((*copies)[i].original));
  }
  for (size_t length = 0; length < text.size(); ++length) {
    const auto part = parse_copies(std::string_view(text).substr(0, length), "list");
    EXPECT_TRUE(!part || part->size() < 2) << length;
  }
}

}  // namespace
}  // namespace weightpager::io
