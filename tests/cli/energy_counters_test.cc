// Counters of energy: those of a made powercap folder, and what is said where there are none.
#include "tools/probes/energy_counters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/model/temporary_directory.h"

namespace weightpager::tools {
namespace {

namespace fs = std::filesystem;

class EnergyCountersTest : public testing::Test {
 protected:
  void set(const std::string& zone, const std::string& file, const std::string& text) {
    fs::create_directories(powercap() + "/" + zone);
    std::ofstream(powercap() + "/" + zone + "/" + file) << text << "\n";
  }
  std::string powercap() const { return directory_.path("powercap"); }
  /// Those of powercap: the machine may also have a GPU, whose counter comes last.
  static std::vector<double> zones_of(EnergyCounters& counters, size_t zones) {
    std::vector<double> joules = counters.joules();
    EXPECT_EQ(joules.size(), counters.names().size());
    joules.resize(zones);
    return joules;
  }

 private:
  model::TemporaryDirectory directory_;
};

TEST_F(EnergyCountersTest, CountFromTheBeginningAndBeyondTheirRange) {
  set("intel-rapl:0", "name", "package-0");
  set("intel-rapl:0", "max_energy_range_uj", "9000000");
  set("intel-rapl:0", "energy_uj", "5000000");
  set("intel-rapl:0:0", "name", "dram");
  set("intel-rapl:0:0", "max_energy_range_uj", "1000000");
  set("intel-rapl:0:0", "energy_uj", "100");
  set("intel-rapl", "enabled", "1");
  set("dtpm", "energy_uj", "1");

  EnergyCounters counters = EnergyCounters::find(powercap());
  ASSERT_GE(counters.names().size(), 2u);
  EXPECT_EQ(counters.names()[0], "package-0");
  EXPECT_EQ(counters.names()[1], "package-0/dram");
  EXPECT_EQ(zones_of(counters, 2), (std::vector<double>{0, 0}));

  set("intel-rapl:0", "energy_uj", "6500000");
  EXPECT_EQ(zones_of(counters, 2), (std::vector<double>{1.5, 0}));
  // The counter began anew: 2.5 J to the end of its range, and 0.5 J more.
  set("intel-rapl:0", "energy_uj", "500000");
  set("intel-rapl:0:0", "energy_uj", "250100");
  EXPECT_EQ(zones_of(counters, 2), (std::vector<double>{4.5, 0.25}));
  // A counter that can no longer be read stands still.
  fs::remove(powercap() + "/intel-rapl:0/energy_uj");
  EXPECT_EQ(zones_of(counters, 2), (std::vector<double>{4.5, 0.25}));
}

TEST_F(EnergyCountersTest, SayWhichFileIsMissing) {
  EnergyCounters none = EnergyCounters::find(powercap());
  ASSERT_FALSE(none.lacks().empty());
  EXPECT_NE(none.lacks()[0].find(powercap() + "/intel-rapl:0/energy_uj is not there"),
            std::string::npos)
      << none.lacks()[0];

  set("intel-rapl:0", "name", "package-0");
  set("intel-rapl:0", "energy_uj", "much");
  EnergyCounters unreadable = EnergyCounters::find(powercap());
  ASSERT_FALSE(unreadable.lacks().empty());
  EXPECT_EQ(unreadable.lacks()[0].find("energy of package-0: " + powercap() +
                                       "/intel-rapl:0/energy_uj cannot be read: "),
            0u)
      << unreadable.lacks()[0];
  const auto& names = unreadable.names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "package-0"), 0);
}

}  // namespace
}  // namespace weightpager::tools
