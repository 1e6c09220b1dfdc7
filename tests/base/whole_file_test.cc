// Whatever a path may be: its text, or an error that names it, never an exception and never a wait.
#include "pager/base/whole_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace weightpager {
namespace {

class WholeFile : public ::testing::Test {
 protected:
  WholeFile() {
    std::string name = "/tmp/weightpager-whole-XXXXXX";
    directory_ = mkdtemp(name.data());
  }
  ~WholeFile() override { std::filesystem::remove_all(directory_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }

  std::string directory_;
};

void expect_error(const Result<std::string>& read, const std::string& message) {
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().message, message);
}

TEST_F(WholeFile, IsReadToItsLastByte) {
  const std::string text = std::string(200'000, 'a') + '\0' + "end";
  const std::string file = write("text", text);
  EXPECT_EQ(read_whole_file(file, text.size(), "a text").value(), text);
  EXPECT_EQ(read_whole_file(write("empty", ""), 10, "a text").value(), "");
}

TEST_F(WholeFile, IsRefusedBeyondItsBound) {
  const std::string file = write("text", std::string(2049, 'a'));
  expect_error(read_whole_file(file, 2048, "a text"),
               file + ": has more than 2.0 KiB, which a text does not take");
  expect_error(read_whole_file("/dev/zero", 2048, "a text"),
               "/dev/zero: has more than 2.0 KiB, which a text does not take");
}

TEST_F(WholeFile, IsNoDirectory) {
  expect_error(read_whole_file(directory_, 2048, "a text"),
               directory_ + ": is a directory, expected a text");
  expect_error(read_whole_file(path("none"), 2048, "a text"),
               path("none") + ": cannot be opened: No such file or directory");
}

TEST_F(WholeFile, OfAPipeIsWhatItsWriterWrites) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  // Nobody writes, and nobody waits for that.
  EXPECT_EQ(read_whole_file(path("pipe"), 2048, "a text").value(), "");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "words", 5), 5);
  close(ends[1]);
  EXPECT_EQ(read_whole_file("/dev/fd/" + std::to_string(ends[0]), 2048, "a text").value(), "words");
  close(ends[0]);
}

TEST_F(WholeFile, OfJsonNeedsRoomForWhatItBecomes) {
  EXPECT_EQ(read_whole_json(write("json", "[]"), 10, "a text").value(), "[]");
}

}  // namespace
}  // namespace weightpager
