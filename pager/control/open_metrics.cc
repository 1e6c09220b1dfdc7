#include "pager/control/open_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "pager/policy/make_policy.h"

namespace weightpager::control {

using telemetry::Distribution;
using telemetry::Histogram;
using telemetry::HistogramScale;
using telemetry::Telemetry;

namespace {

constexpr uint64_t second_ns = 1'000'000'000;
constexpr uint32_t bucket_bits_min = 10;  // 1 µs
constexpr uint32_t bucket_bits_max = 35;  // 34 s

struct Name {
  std::string family;
  std::string_view unit;  // "", "bytes", "seconds"
};

/// "resident_bytes_max" is weightpager_resident_max_bytes, "stall_ns" weightpager_stall_seconds.
Name name_of(std::string_view key) {
  std::string family = fmt::format("weightpager_{}", key);
  constexpr std::string_view ns = "_ns";
  constexpr std::string_view bytes = "_bytes";
  if (family.ends_with(ns)) {
    family.resize(family.size() - ns.size());
    return {family + "_seconds", "seconds"};
  }
  const size_t at = family.find(bytes);
  if (at == std::string::npos) return {family, ""};
  family.erase(at, bytes.size());
  return {family + "_bytes", "bytes"};
}

std::string seconds(uint64_t ns) { return fmt::format("{}.{:09}", ns / second_ns, ns % second_ns); }

std::string value(const Name& name, uint64_t counted) {
  return name.unit == "seconds" ? seconds(counted) : fmt::format("{}", counted);
}

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

void begin_family(std::string& text, const Name& name, const char* type, std::string_view help) {
  text += fmt::format("# TYPE {} {}\n", name.family, type);
  if (!name.unit.empty()) text += fmt::format("# UNIT {} {}\n", name.family, name.unit);
  text += fmt::format("# HELP {} {}\n", name.family, help);
}

void add_info(std::string& text, const Telemetry& telemetry) {
  begin_family(text, {"weightpager_pager", ""}, "info", "what pages, and whom");
  text += fmt::format(
      "weightpager_pager_info{{pid=\"{}\",command={},mapper={},reader={},policy={}}} 1\n",
      telemetry.process_id, label_value(telemetry.command), label_value(telemetry.mapper),
      label_value(telemetry.reader), label_value(policy::policy_name(telemetry.policy)));
}

/// Counters that are one family with a label, and so stand next to each other.
struct Labelled {
  std::string_view key;
  std::string_view family;
  std::string_view label;
  std::string_view value;
  std::string_view help;
};
constexpr std::array<Labelled, 5> labelled{{
    {"faults_demand", "weightpager_faults", "kind", "demand", "touches that waited for a chunk"},
    {"faults_late", "weightpager_faults", "kind", "late", ""},
    {"faults_tripwire", "weightpager_faults", "kind", "tripwire", ""},
    {"prefetch_hidden", "weightpager_prefetched_chunks", "outcome", "hidden",
     "chunks read ahead, by whether they were there before the engine came"},
    {"prefetch_unused", "weightpager_prefetched_chunks", "outcome", "unused", ""},
}};

constexpr std::array<std::string_view, 4> times_of_day = {"policy_changed_ns", "started_ns",
                                                          "last_event_ns", "ended_ns"};

void add_counter(std::string& text, const telemetry::NamedCounter& counter, uint64_t counted) {
  const std::string_view key = counter.key;
  const auto is_key = [key](const auto& it) { return it.key == key; };
  const auto found = std::find_if(labelled.begin(), labelled.end(), is_key);
  if (found != labelled.end()) {
    const Name name = {std::string(found->family), ""};
    if (!found->help.empty()) begin_family(text, name, "counter", found->help);
    text +=
        fmt::format("{}_total{{{}=\"{}\"}} {}\n", name.family, found->label, found->value, counted);
    return;
  }
  const Name name = name_of(key);
  begin_family(text, name, counter.is_total ? "counter" : "gauge", counter.description);
  text +=
      fmt::format("{}{} {}\n", name.family, counter.is_total ? "_total" : "", value(name, counted));
}

/// `label`: "kind=…," or nothing.
void add_histogram(std::string& text, const std::string& family, const std::string& label,
                   const Histogram& histogram) {
  const Distribution counts = histogram.distribution();
  uint64_t below = 0;
  uint32_t bucket = 0;
  for (uint32_t bits = bucket_bits_min; bits <= bucket_bits_max; ++bits) {
    // Values are whole nanoseconds: those below the next power of two are at most one less.
    const uint64_t end_ns = uint64_t{1} << bits;
    while (bucket < HistogramScale::buckets && HistogramScale::begin_of(bucket + 1) <= end_ns) {
      below += counts.count_in(bucket++);
    }
    text += fmt::format("{}_bucket{{{}le=\"{}\"}} {}\n", family, label, seconds(end_ns - 1), below);
  }
  const uint64_t count = counts.count();
  const std::string labels =
      label.empty() ? "" : fmt::format("{{{}}}", label.substr(0, label.size() - 1));
  text += fmt::format("{}_bucket{{{}le=\"+Inf\"}} {}\n", family, label, count);
  text += fmt::format("{}_count{} {}\n", family, labels, count);
  text += fmt::format("{}_sum{} {}\n", family, labels, seconds(histogram.sum()));
}

void add_histograms(std::string& text, const Telemetry& telemetry) {
  const Name wait = {"weightpager_fault_wait_seconds", "seconds"};
  begin_family(text, wait, "histogram", "from a touch to its toucher running on");
  add_histogram(text, wait.family, "kind=\"demand\",", telemetry.wait_demand_ns);
  add_histogram(text, wait.family, "kind=\"late\",", telemetry.wait_late_ns);
  add_histogram(text, wait.family, "kind=\"tripwire\",", telemetry.wait_tripwire_ns);
  const Name read = {"weightpager_read_latency_seconds", "seconds"};
  begin_family(text, read, "histogram", "from a read's start to its bytes being here");
  add_histogram(text, read.family, "", telemetry.read_latency_ns);
}

}  // namespace

std::string open_metrics(const Telemetry& telemetry, const std::vector<LayerStall>& layers) {
  std::string text;
  add_info(text, telemetry);
  for (const telemetry::NamedCounter& it : telemetry::named_counters()) {
    if (std::find(times_of_day.begin(), times_of_day.end(), it.key) != times_of_day.end()) continue;
    add_counter(text, it, (telemetry.*it.counter).load());
  }
  add_histograms(text, telemetry);
  const Name stall = {"weightpager_layer_stall_seconds", "seconds"};
  begin_family(text, stall, "counter", "time with an engine thread waiting, by what for");
  for (const LayerStall& it : layers) {
    text +=
        fmt::format("{}_total{{model={},layer=\"{}\",name={}}} {}\n", stall.family,
                    label_value(it.model), it.layer, label_value(it.name), seconds(it.stall_ns));
  }
  return text + "# EOF\n";
}

}  // namespace weightpager::control
