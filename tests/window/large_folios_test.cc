// Folios of a chunk's size are asked for only where no larger ones would come.
#include "pager/window/large_folios.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "pager/base/units.h"

namespace weightpager::window {
namespace {

class LargeFolios : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/large_folios." + std::to_string(getpid());
    std::filesystem::remove_all(folder_);
    set("shmem_enabled", "always within_size advise [never] deny force");
    for (const char* const size : {"64", "128", "256", "512", "1024"}) {
      set_size(size, "always inherit within_size advise [never]");
    }
    set_size("2048", "always [inherit] within_size advise never");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void set(const std::string& name, const char* text) const {
    const std::string path = folder_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text << "\n";
  }
  void set_size(const char* kib, const char* text) const {
    set(std::string("hugepages-") + kib + "kB/shmem_enabled", text);
  }
  bool are_given(uint64_t chunk_bytes) const { return gives_folios_of(chunk_bytes, folder_); }

  std::string folder_;
};

TEST_F(LargeFolios, AreThoseThatTheAdministratorAllows) {
  EXPECT_FALSE(are_given(128 * KiB));
  set_size("128", "always inherit within_size [advise] never");
  EXPECT_TRUE(are_given(128 * KiB));
  EXPECT_FALSE(are_given(64 * KiB)) << "a folio of two chunks";
  EXPECT_FALSE(are_given(256 * KiB));
}

TEST_F(LargeFolios, AreNotAskedForWhereLargerOnesWouldCome) {
  set_size("128", "always inherit within_size [advise] never");
  set("shmem_enabled", "always within_size [advise] never deny force");
  EXPECT_FALSE(are_given(128 * KiB)) << "2 MiB inherits what holds for all";
  set_size("2048", "always inherit within_size advise [never]");
  EXPECT_TRUE(are_given(128 * KiB));
}

TEST_F(LargeFolios, AKernelWithoutTheSettingHasNone) {
  std::filesystem::remove_all(folder_);
  EXPECT_FALSE(are_given(128 * KiB));
  set_size("128", "nothing in brackets");
  EXPECT_FALSE(are_given(128 * KiB));
}

TEST_F(LargeFolios, HugePagesAreAnotherMatter) {
  set_size("2048", "[always] inherit within_size advise never");
  EXPECT_FALSE(are_given(huge_page_bytes));
}

}  // namespace
}  // namespace weightpager::window
