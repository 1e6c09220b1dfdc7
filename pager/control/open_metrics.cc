#include "pager/control/open_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <string_view>

#include "pager/control/metrics_text.h"
#include "pager/policy/named/make_policy.h"

namespace weightpager::control {

using telemetry::Distribution;
using telemetry::Histogram;
using telemetry::HistogramScale;
using telemetry::Telemetry;

namespace {

constexpr uint32_t bucket_bits_min = 10;  // 1 µs
constexpr uint32_t bucket_bits_max = 35;  // 34 s

/// "resident_bytes_max" → weightpager_resident_max_bytes; "stall_ns" → weightpager_stall_seconds.
MetricName name_of(std::string_view key) {
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

void add_info(MetricsText& text, const Telemetry& telemetry) {
  text.add_family({"weightpager_pager", ""}, "info", "what pages, and whom");
  text.add("_info",
           {{"pid", std::to_string(telemetry.process_id)},
            {"command", telemetry.command},
            {"mapper", telemetry.mapper},
            {"reader", telemetry.reader},
            {"policy", std::string(policy::policy_name(telemetry.policy))}},
           1);
}

/// Counters that form one family, told apart by a label. A family's lines must stand together.
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

void add_counter(MetricsText& text, const telemetry::NamedCounter& counter, uint64_t counted) {
  const std::string_view key = counter.key;
  const auto is_key = [key](const auto& it) { return it.key == key; };
  const auto found = std::find_if(labelled.begin(), labelled.end(), is_key);
  if (found != labelled.end()) {
    const MetricName name = {std::string(found->family), ""};
    if (!found->help.empty()) text.add_family(name, "counter", found->help);
    return text.add("_total", {{found->label, std::string(found->value)}}, counted);
  }
  const MetricName name = name_of(key);
  text.add_family(name, counter.is_total ? "counter" : "gauge", counter.description);
  const char* const suffix = counter.is_total ? "_total" : "";
  name.unit == "seconds" ? text.add_seconds(suffix, {}, counted) : text.add(suffix, {}, counted);
}

/// `labels`: those that all lines of the histogram have.
void add_histogram(MetricsText& text, const MetricsText::Labels& labels,
                   const Histogram& histogram) {
  const Distribution counts = histogram.distribution();
  const auto add_bucket = [&](const std::string& end, uint64_t below) {
    MetricsText::Labels all = labels;
    all.emplace_back("le", end);
    text.add("_bucket", all, below);
  };
  uint64_t below = 0;
  uint32_t bucket = 0;
  for (uint32_t bits = bucket_bits_min; bits <= bucket_bits_max; ++bits) {
    // Values are whole nanoseconds, so a value below a power of two is at most that power less one.
    const uint64_t end_ns = uint64_t{1} << bits;
    while (bucket < HistogramScale::buckets && HistogramScale::begin_of(bucket + 1) <= end_ns) {
      below += counts.count_in(bucket++);
    }
    add_bucket(seconds_text(end_ns - 1), below);
  }
  const uint64_t count = counts.count();
  add_bucket("+Inf", count);
  text.add("_count", labels, count);
  text.add_seconds("_sum", labels, histogram.sum());
}

void add_histograms(MetricsText& text, const Telemetry& telemetry) {
  text.add_family({"weightpager_fault_wait_seconds", "seconds"}, "histogram",
                  "from a touch to its toucher running on");
  add_histogram(text, {{"kind", "demand"}}, telemetry.wait_demand_ns);
  add_histogram(text, {{"kind", "late"}}, telemetry.wait_late_ns);
  add_histogram(text, {{"kind", "tripwire"}}, telemetry.wait_tripwire_ns);
  text.add_family({"weightpager_read_latency_seconds", "seconds"}, "histogram",
                  "from a read's start to its bytes being here");
  add_histogram(text, {}, telemetry.read_latency_ns);
}

/// A line for each size from a power of two to the next one, so that there are few however many
/// blocks there are.
void add_blocks(MetricsText& text, const std::vector<MemoryBlock>& blocks) {
  std::map<uint64_t, uint64_t> by_size;
  uint64_t written_bytes = 0, lazy_bytes = 0, zero_bytes = 0;
  for (const MemoryBlock& it : blocks) {
    ++by_size[std::bit_floor(it.size_bytes)];
    written_bytes += it.written_bytes;
    lazy_bytes += it.lazy_bytes;
    zero_bytes += it.zero_bytes;
  }
  text.add_family({"weightpager_large_blocks_by_size", ""}, "gauge",
                  "large blocks of the engine's own, from this size to twice the size");
  for (const auto& [bytes, count] : by_size)
    text.add("", {{"bytes_min", std::to_string(bytes)}}, count);
  text.add_family({"weightpager_large_blocks_held_bytes", "bytes"}, "gauge",
                  "what these blocks hold: written, of files that the engine read, zeros");
  text.add("", {{"holds", "written"}}, written_bytes);
  text.add("", {{"holds", "file"}}, lazy_bytes);
  text.add("", {{"holds", "zeros"}}, zero_bytes);
}

}  // namespace

std::string open_metrics(const Telemetry& telemetry, const std::vector<LayerStall>& layers,
                         const std::vector<MemoryBlock>& blocks) {
  MetricsText text;
  add_info(text, telemetry);
  for (const telemetry::NamedCounter& it : telemetry::named_counters()) {
    if (std::find(times_of_day.begin(), times_of_day.end(), it.key) != times_of_day.end()) continue;
    add_counter(text, it, (telemetry.*it.counter).load());
  }
  add_histograms(text, telemetry);
  text.add_family({"weightpager_layer_stall_seconds", "seconds"}, "counter",
                  "time with an engine thread waiting, by what for");
  for (const LayerStall& it : layers) {
    text.add_seconds("_total",
                     {{"model", it.model}, {"layer", std::to_string(it.layer)}, {"name", it.name}},
                     it.stall_ns);
  }
  if (!blocks.empty()) add_blocks(text, blocks);
  return text.end();
}

}  // namespace weightpager::control
