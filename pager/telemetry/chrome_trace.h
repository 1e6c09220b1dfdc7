// What happened when, for looking at: chrome://tracing and ui.perfetto.dev show it as lanes.
//
// Lanes are the "threads" of "processes" in the Trace Event Format; times are in nanoseconds here
// and in microseconds there. What overlaps in a lane (reads) is added as such.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace weightpager::telemetry {

struct TraceLane {
  uint64_t process = 0;
  uint64_t thread = 0;
  /// Of what is in it; those that overlap need one of their own.
  const char* category = "";
};

class ChromeTrace {
 public:
  ChromeTrace();
  ~ChromeTrace();
  ChromeTrace(ChromeTrace&&) noexcept;

  void name_process(uint64_t process, const std::string& name);
  void name_lane(const TraceLane& lane, const std::string& name);
  /// Times may be before 0.
  void add_span(const TraceLane& lane, const std::string& name, int64_t start_ns, int64_t end_ns);
  /// One of several that overlap; `id` is its own among those of the process and category.
  void add_overlapping(const TraceLane& lane, const std::string& name, uint64_t id,
                       int64_t start_ns, int64_t end_ns);
  void add_instant(const TraceLane& lane, const std::string& name, int64_t time_ns);

  std::string json() const;

 private:
  nlohmann::ordered_json event(const TraceLane& lane, const std::string& name, const char* phase,
                               int64_t time_ns) const;
  std::unique_ptr<nlohmann::ordered_json> events_;
};

}  // namespace weightpager::telemetry
