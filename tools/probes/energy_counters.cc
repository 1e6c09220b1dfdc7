#include "tools/probes/energy_counters.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

namespace weightpager::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* nvml_library = "libnvidia-ml.so.1";

std::optional<uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (file >> number) return number;
  return {};
}

/// "package-0", or "package-0/dram" for a zone within one; the folder's name if it has no other.
std::string zone_name(const fs::path& zone) {
  std::string name = zone.filename();
  std::ifstream(zone / "name") >> name;
  const std::string folder = zone.filename();
  const bool is_within = std::count(folder.begin(), folder.end(), ':') > 1;
  if (!is_within) return name;
  const fs::path outer = zone.parent_path() / folder.substr(0, folder.rfind(':'));
  std::string outer_name = outer.filename();
  std::ifstream(outer / "name") >> outer_name;
  return fmt::format("{}/{}", outer_name, name);
}

/// The folders of RAPL's zones, sorted.
std::vector<fs::path> zones_in(const std::string& powercap) {
  std::vector<fs::path> zones;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(powercap, ignored)) {
    if (entry.path().filename().string().starts_with("intel-rapl:")) zones.push_back(entry.path());
  }
  std::sort(zones.begin(), zones.end());
  return zones;
}

}  // namespace

/// The part of NVML that tells a GPU's energy. The library comes with the driver, so it is opened
/// only where it is.
class EnergyCounters::Gpu {
 public:
  ~Gpu() {
    if (library_ != nullptr) dlclose(library_);
  }
  Gpu() = default;
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  /// Returns why there is no counter; "" if there is one.
  std::string open() {
    library_ = dlopen(nvml_library, RTLD_NOW);
    if (library_ == nullptr) return fmt::format("{} is not there", nvml_library);
    const auto initialize = function<int (*)()>("nvmlInit_v2");
    const auto device_of = function<int (*)(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2");
    energy_of_ =
        function<int (*)(void*, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption");
    if (initialize == nullptr || device_of == nullptr || energy_of_ == nullptr)
      return fmt::format("{} lacks nvmlDeviceGetTotalEnergyConsumption", nvml_library);
    if (const int status = initialize(); status != 0)
      return fmt::format("{}: nvmlInit_v2 says {}", nvml_library, status);
    if (const int status = device_of(0, &device_); status != 0)
      return fmt::format("{}: GPU 0: nvmlDeviceGetHandleByIndex_v2 says {}", nvml_library, status);
    unsigned long long millijoules = 0;
    if (const int status = energy_of_(device_, &millijoules); status != 0)
      return fmt::format("{}: nvmlDeviceGetTotalEnergyConsumption says {}", nvml_library, status);
    first_mj_ = last_mj_ = millijoules;
    return "";
  }

  /// What it told last if it tells nothing now.
  double joules() {
    unsigned long long millijoules = 0;
    if (energy_of_(device_, &millijoules) == 0) last_mj_ = millijoules;
    return static_cast<double>(last_mj_ - first_mj_) / 1e3;
  }

 private:
  template <typename Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }

  void* library_ = nullptr;
  void* device_ = nullptr;
  int (*energy_of_)(void*, unsigned long long*) = nullptr;
  unsigned long long first_mj_ = 0;
  unsigned long long last_mj_ = 0;
};

EnergyCounters::EnergyCounters() = default;
EnergyCounters::EnergyCounters(EnergyCounters&&) noexcept = default;
EnergyCounters::~EnergyCounters() = default;

void EnergyCounters::find_zones(const std::string& powercap) {
  const std::vector<fs::path> found = zones_in(powercap);
  if (found.empty()) {
    lacks_.push_back(fmt::format(
        "energy of the processors: {}/intel-rapl:0/energy_uj is not there (a virtual machine whose "
        "host does not show it, or a kernel without CONFIG_INTEL_RAPL).",
        powercap));
  }
  for (const fs::path& zone : found) {
    const std::string path = zone / "energy_uj";
    errno = 0;
    const auto now_uj = number_in(path);
    if (!now_uj) {
      lacks_.push_back(fmt::format("energy of {}: {} cannot be read: {}.", zone_name(zone), path,
                                   errno == 0 ? "no number" : strerror(errno)));
      continue;
    }
    names_.push_back(zone_name(zone));
    zones_.push_back({.path = path,
                      .last_uj = *now_uj,
                      .range_uj = number_in(zone / "max_energy_range_uj").value_or(0)});
  }
}

void EnergyCounters::find_gpu() {
  auto gpu = std::make_unique<Gpu>();
  if (const std::string problem = gpu->open(); !problem.empty()) {
    lacks_.push_back(fmt::format("energy of a GPU: {}.", problem));
    return;
  }
  names_.emplace_back("GPU 0");
  gpu_ = std::move(gpu);
}

EnergyCounters EnergyCounters::find(const std::string& powercap) {
  EnergyCounters counters;
  counters.find_zones(powercap);
  counters.find_gpu();
  return counters;
}

std::vector<double> EnergyCounters::joules() {
  std::vector<double> all;
  for (Zone& it : zones_) {
    const uint64_t now_uj = number_in(it.path).value_or(it.last_uj);
    const uint64_t begun_anew_uj = now_uj < it.last_uj ? it.range_uj : 0;
    it.joules += static_cast<double>(now_uj + begun_anew_uj - it.last_uj) / 1e6;
    it.last_uj = now_uj;
    all.push_back(it.joules);
  }
  if (gpu_ != nullptr) all.push_back(gpu_->joules());
  return all;
}

}  // namespace weightpager::tools
