#include "pager/control/metrics_text.h"

#include <fmt/format.h>

#include "pager/base/units.h"

namespace weightpager::control {
namespace {

/// A label's value, within quotes.
std::string label_value(std::string_view text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '\n') {
      result += "\\n";
    } else {
      if (letter == '"' || letter == '\\') result += '\\';
      result += letter;
    }
  }
  return result + "\"";
}

}  // namespace

std::string seconds_text(uint64_t ns) {
  return fmt::format("{}.{:09}", ns / second_ns, ns % second_ns);
}

void MetricsText::add_family(const MetricName& name, std::string_view type, std::string_view help) {
  family_ = name.family;
  text_ += fmt::format("# TYPE {} {}\n", name.family, type);
  if (!name.unit.empty()) text_ += fmt::format("# UNIT {} {}\n", name.family, name.unit);
  text_ += fmt::format("# HELP {} {}\n", name.family, help);
}

void MetricsText::add(std::string_view suffix, const Labels& labels, uint64_t value) {
  add_text(suffix, labels, std::to_string(value));
}

void MetricsText::add_seconds(std::string_view suffix, const Labels& labels, uint64_t ns) {
  add_text(suffix, labels, seconds_text(ns));
}

void MetricsText::add_text(std::string_view suffix, const Labels& labels, std::string_view value) {
  std::string all;
  for (const auto& [label, is] : labels) {
    all += fmt::format("{}{}={}", all.empty() ? "{" : ",", label, label_value(is));
  }
  if (!all.empty()) all += "}";
  text_ += fmt::format("{}{}{} {}\n", family_, suffix, all, value);
}

}  // namespace weightpager::control
