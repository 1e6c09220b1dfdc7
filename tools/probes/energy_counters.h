// The machine's own counters of energy: of processors through powercap (RAPL), of an NVIDIA GPU
// through its driver's library (NVML).
//
// Problem. Which of them a machine has depends on its processor, its kernel, its hypervisor and the
// user's rights.
//
// Idea. All that there are, by name, and for each kind that there is not the file that is missing.
// RAPL's counters begin anew at a limit that the kernel tells, some minutes apart at full power, so
// they are read at least that often by whoever measures; each reading adds what went by since the
// last one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weightpager::tools {

/// For one thread. Movable.
class EnergyCounters {
 public:
  /// `powercap`: the kernel's folder of zones.
  static EnergyCounters find(const std::string& powercap = "/sys/class/powercap");

  EnergyCounters(EnergyCounters&&) noexcept;
  EnergyCounters& operator=(EnergyCounters&&) = delete;
  ~EnergyCounters();

  /// "package-0", "dram", "GPU 0".
  const std::vector<std::string>& names() const { return names_; }
  /// What there is not, and which file would be it; one sentence each.
  const std::vector<std::string>& lacks() const { return lacks_; }
  /// Joules since `find`, by counter, in the order of names().
  std::vector<double> joules();

 private:
  struct Zone {
    std::string path;
    uint64_t last_uj = 0;
    uint64_t range_uj = 0;
    double joules = 0;
  };
  class Gpu;

  EnergyCounters();
  void find_zones(const std::string& powercap);
  void find_gpu();

  std::vector<std::string> names_;
  std::vector<std::string> lacks_;
  std::vector<Zone> zones_;
  std::unique_ptr<Gpu> gpu_;
};

}  // namespace weightpager::tools
