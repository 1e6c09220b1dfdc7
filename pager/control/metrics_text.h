// OpenMetrics text, family by family: names with their units, labels quoted, "# EOF" at the end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weightpager::control {

/// A family's name ends with its unit: "", "bytes" or "seconds".
struct MetricName {
  std::string family;
  std::string_view unit;
};

class MetricsText {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string>>;

  /// Everything that add() adds from now on belongs to this family. `type`: counter, gauge,
  /// histogram, info.
  void add_family(const MetricName& name, std::string_view type, std::string_view help);
  /// `suffix`: "_total" and the like, or "".
  void add(std::string_view suffix, const Labels& labels, uint64_t value);
  void add_seconds(std::string_view suffix, const Labels& labels, uint64_t ns);
  /// The whole text; nothing can be added after that.
  std::string end() { return std::move(text_) + "# EOF\n"; }

 private:
  void add_text(std::string_view suffix, const Labels& labels, std::string_view value);

  std::string text_;
  std::string family_;
};

/// "0.000001023" seconds.
std::string seconds_text(uint64_t ns);

}  // namespace weightpager::control
