#include "pager/control/pager_answers.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "pager/base/units.h"
#include "pager/control/answer.h"
#include "pager/control/layer_list.h"
#include "pager/control/open_metrics.h"

namespace weightpager::control {

using Json = nlohmann::ordered_json;
using telemetry::monotonic_ns;
using window::ChunkState;

namespace {

constexpr char known_requests[] = "hello, stat, histograms, residency, metrics, trace, set";

// Facts about files and chunks are asked for again when they are older than these ages, and than
// looking_share times the time that it took to get them.
constexpr uint64_t files_age_ns = 200'000'000;
constexpr uint64_t chunks_age_ns = 50'000'000;
constexpr uint64_t looking_share = 50;
// One command keeps the pager from its work for as long as these take: some 50 µs.
constexpr uint32_t chunks_at_once = 1u << 14;
constexpr uint64_t changes_apart_ns = 50'000'000;

// This keeps an answer below some hundred KiB.
constexpr uint64_t models_max = 256;
constexpr uint64_t layers_max = 1024;
constexpr uint64_t tensors_max = 1024;
constexpr uint64_t blocks_max = 1024;
constexpr uint64_t chunks_max = 1u << 16;
constexpr size_t events_max = 2048;

// Indexed by telemetry::EventKind and window::ChunkState.
constexpr std::array kind_names = {"touch", "served", "read", "arrive", "map", "evict", "hide"};
constexpr std::array state_names = {"absent", "reading", "ready", "mapped", "failed", "leaving"};
constexpr char state_letters[] = ".rymx";
constexpr char pinned_letters[] = "_RYMX";

Json residency_json(const StateBytes& residency, const std::string& name, uint64_t size_bytes) {
  Json row = {{"name", name}, {"size_bytes", size_bytes}};
  for (size_t i = 0; i < residency.bytes.size(); ++i) {
    row[std::string(state_names[i]) + "_bytes"] = residency.bytes[i];
  }
  row["pinned_bytes"] = residency.pinned_bytes;
  return row;
}

void add_tensor(StateBytes& residency, const model::Tensor& tensor, uint64_t chunk_bytes,
                std::span<const ChunkView> chunks) {
  const uint64_t end = tensor.offset_bytes + tensor.size_bytes;
  for (uint64_t at = tensor.offset_bytes; at < end;) {
    const uint64_t chunk = at / chunk_bytes;
    const uint64_t next = std::min((chunk + 1) * chunk_bytes, end);
    residency.add(chunk < chunks.size() ? chunks[chunk] : ChunkView{}, next - at);
    at = next;
  }
}

/// Where the tensors lie in their file: [first chunk, count], in order. Ranges that touch or
/// overlap are joined.
Json chunk_ranges(const model::Model& model, std::span<const uint32_t> tensors,
                  uint64_t chunk_bytes) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // [first, end)
  for (const uint32_t index : tensors) {
    const model::Tensor& it = model.tensors[index];
    if (it.size_bytes == 0) continue;
    ranges.emplace_back(it.offset_bytes / chunk_bytes,
                        (it.offset_bytes + it.size_bytes - 1) / chunk_bytes + 1);
  }
  std::sort(ranges.begin(), ranges.end());
  Json rows = Json::array();
  uint64_t end = 0;
  for (const auto& [first, range_end] : ranges) {
    if (rows.empty() || first > end) {
      rows.push_back({first, range_end - first});
    } else if (range_end > end) {
      rows.back()[1] = range_end - rows.back()[0].get<uint64_t>();
    }
    end = std::max(end, range_end);
  }
  return rows;
}

Json layer_row(const ServedLayers& layers, uint32_t index, uint64_t chunk_bytes,
               std::span<const ChunkView> chunks) {
  const model::Layer& layer = layers.model().layers[index];
  StateBytes residency;
  for (const uint32_t tensor : layer.tensors) {
    add_tensor(residency, layers.model().tensors[tensor], chunk_bytes, chunks);
  }
  Json row = residency_json(residency, layer.name, layer.size_bytes);
  row["stall_ns"] = layers.stall_ns(index);
  row["chunks"] = chunk_ranges(layers.model(), layer.tensors, chunk_bytes);
  return row;
}

Json tensor_row(const ServedLayers& layers, uint32_t index, uint64_t chunk_bytes,
                std::span<const ChunkView> chunks) {
  const model::Tensor& tensor = layers.model().tensors[index];
  StateBytes residency;
  add_tensor(residency, tensor, chunk_bytes, chunks);
  Json row = residency_json(residency, tensor.name, tensor.size_bytes);
  row["chunks"] = chunk_ranges(layers.model(), std::span(&index, 1), chunk_bytes);
  return row;
}

Json block_row(const MemoryBlock& block, std::span<const std::string> files, uint64_t chunk_bytes) {
  Json row = residency_json(block.residency, content_text(block, files), block.size_bytes);
  row["offset_bytes"] = block.offset_bytes;
  row["written_bytes"] = block.written_bytes;
  row["lazy_bytes"] = block.lazy_bytes;
  row["zero_bytes"] = block.zero_bytes;
  if (block.lazy_file && *block.lazy_file < files.size()) {
    row["file"] = files[*block.lazy_file];
    row["file_offset_bytes"] = block.lazy_offset_bytes;
  }
  const uint64_t first = block.offset_bytes / chunk_bytes;
  const uint64_t end = (block.offset_bytes + block.size_bytes - 1) / chunk_bytes + 1;
  row["chunks"] = Json::array({Json::array({first, end - first})});
  return row;
}

Json event_row(const telemetry::Event& event, size_t model, const FileView* file) {
  Json row = {event.time_ns, kind_names[static_cast<size_t>(event.kind)]};
  if (file == nullptr) return row;
  const uint32_t chunk = event.chunk - file->first_chunk;
  const uint32_t layer = file->layers->layer_of(chunk);
  row.push_back(model);
  row.push_back(layer == ServedLayers::no_layer ? Json(nullptr) : Json(layer));
  row.push_back(chunk);
  row.push_back(event.count);
  if (event.kind == telemetry::EventKind::touch) {
    row.push_back(event.thread);
    row.push_back(state_names[event.state]);
  }
  return row;
}

/// The part of a list that is asked for: "first" and "count".
struct Part {
  uint64_t first = 0;
  uint64_t count = 0;
};

Result<Part> part_of(const ControlRequest& request, uint64_t total, uint64_t count_max) {
  const auto first = request.number("first");
  if (!first) return tl::make_unexpected(first.error());
  const auto count = request.number("count");
  if (!count) return tl::make_unexpected(count.error());
  const uint64_t from = std::min(first->value_or(0), total);
  return Part{from, std::min({count->value_or(count_max), count_max, total - from})};
}

}  // namespace

PagerAnswers::PagerAnswers(Pager& pager, const telemetry::Telemetry& telemetry, const char* kind)
    : pager_(pager), kind_(kind), telemetry_(telemetry) {}

void PagerAnswers::end_trace() {
  if (events_) pager_.trace_to(nullptr);
  events_.reset();
}

std::string PagerAnswers::answer(std::string_view line) {
  const auto request = parse_request(line);
  if (!request) return answer_line("", tl::make_unexpected(request.error()));
  return answer_line(request->name(), carry_out(*request));
}

Result<Json> PagerAnswers::carry_out(const ControlRequest& request) {
  if (request.name() == "hello") return hello(request);
  if (request.name() == "stat") return stat(request);
  if (request.name() == "histograms") return histograms(request);
  if (request.name() == "residency") return residency(request);
  if (request.name() == "metrics") return metrics(request);
  if (request.name() == "trace") return trace(request);
  if (request.name() == "set") return change(request);
  return unknown_request(request, known_requests);
}

// ---- What there is ----

Result<Json> PagerAnswers::hello(const ControlRequest& request) {
  if (auto known = request.expect_only({}); !known) return forward_error(std::move(known));
  look_at_files();
  Json json = {{"kind", kind_},
               {"weightpager_version", WP_VERSION},
               {"requests", known_requests},
               {"process_id", telemetry_.process_id},
               {"command", telemetry_.command},
               {"mapper", telemetry_.mapper},
               {"reader", telemetry_.reader},
               {"policy", policy::policy_name(telemetry_.policy)},
               {"policy_asked", policy_text()},
               {"chunk_bytes", telemetry_.chunk_bytes.load()},
               {"window_bytes", telemetry_.window_bytes.load()},
               {"window_bytes_min", window_bytes_min},
               {"window_bytes_max", pager_.window_bytes_max()},
               {"models_total", files_.size()},
               {"models", Json::array()}};
  for (const FileView& file : files_) {
    if (json["models"].size() == models_max) break;
    json["models"].push_back({{"name", file.layers->name()},
                              {"kind", file.is_memory ? "memory" : "file"},
                              {"size_bytes", file.layers->size_bytes()},
                              {"chunks", file.chunks},
                              {"layers", file.layers->model().layers.size()},
                              {"tensors", file.layers->model().tensors.size()}});
  }
  return json;
}

Result<Json> PagerAnswers::stat(const ControlRequest& request) {
  if (auto known = request.expect_only({}); !known) return forward_error(std::move(known));
  Json json = {{"time_ns", monotonic_ns()},
               {"process_id", telemetry_.process_id},
               {"policy", policy::policy_name(telemetry_.policy)},
               {"former_policy", policy::policy_name(telemetry_.former_policy)}};
  for (const telemetry::NamedCounter& it : telemetry::named_counters()) {
    json[it.key] = (telemetry_.*it.counter).load();
  }
  json["cursor"] = nullptr;
  look_at_files();
  json["memory"] = memory_json();
  const auto chunk = static_cast<window::ChunkId>(telemetry_.cursor_chunk);
  const size_t model = file_of(chunk);
  if (model == files_.size()) return json;
  const FileView& file = files_[model];
  const uint32_t layer = file.layers->layer_of(chunk - file.first_chunk);
  if (layer == ServedLayers::no_layer) return json;
  json["cursor"] = {{"model", model},
                    {"layer", layer},
                    {"layers", file.layers->model().layers.size()},
                    {"name", file.layers->model().layers[layer].name}};
  return json;
}

// What all blocks together hold.
Json PagerAnswers::memory_json() {
  const auto blocks = all_blocks();
  const bool has_memory =
      std::any_of(files_.begin(), files_.end(), [](const FileView& it) { return it.is_memory; });
  if (!has_memory) return nullptr;
  MemoryBlock all;
  for (const MemoryBlock& it : blocks) {
    all.size_bytes += it.size_bytes;
    all.written_bytes += it.written_bytes;
    all.lazy_bytes += it.lazy_bytes;
    all.zero_bytes += it.zero_bytes;
  }
  return {{"blocks", blocks.size()},
          {"size_bytes", all.size_bytes},
          {"written_bytes", all.written_bytes},
          {"lazy_bytes", all.lazy_bytes},
          {"zero_bytes", all.zero_bytes}};
}

Result<Json> PagerAnswers::histograms(const ControlRequest& request) {
  if (auto known = request.expect_only({}); !known) return forward_error(std::move(known));
  Json json;
  for (const telemetry::NamedHistogram& it : telemetry::named_histograms()) {
    json["histograms"][it.key] = histogram_json(telemetry_.*it.histogram);
  }
  return json;
}

Result<Json> PagerAnswers::metrics(const ControlRequest& request) {
  if (auto known = request.expect_only({}); !known) return forward_error(std::move(known));
  look_at_files();
  std::vector<LayerStall> layers;
  for (const FileView& file : files_) {
    const std::vector<model::Layer>& named = file.layers->model().layers;
    for (uint32_t i = 0; i < named.size() && layers.size() < layers_max; ++i) {
      layers.push_back({file.layers->name(), i, named[i].name, file.layers->stall_ns(i)});
    }
  }
  return Json{{"text", open_metrics(telemetry_, layers, all_blocks())}};
}

Result<Json> PagerAnswers::residency(const ControlRequest& request) {
  if (auto known = request.expect_only({"model", "by", "first", "count"}); !known) {
    return forward_error(std::move(known));
  }
  look_at_files();
  const auto model = model_meant(request);
  if (!model) return tl::make_unexpected(model.error());
  const auto by = request.text("by");
  if (!by) return tl::make_unexpected(by.error());
  const std::string what = by->value_or("layer");
  const FileView& file = **model;
  const model::Model& named = file.layers->model();
  look_at_chunks();
  const std::span chunks = chunks_of(file);
  const auto blocks = what == "block" ? blocks_of(file) : std::vector<MemoryBlock>{};
  const uint64_t total = what == "layer"    ? named.layers.size()
                         : what == "tensor" ? named.tensors.size()
                         : what == "chunk"  ? file.chunks
                         : what == "block"  ? blocks.size()
                                            : UINT64_MAX;
  if (total == UINT64_MAX)
    return fail("by: unknown " + what, "there are layer, tensor, chunk, block");
  const auto part = part_of(request, total,
                            what == "layer"    ? layers_max
                            : what == "tensor" ? tensors_max
                            : what == "block"  ? blocks_max
                                               : chunks_max);
  if (!part) return tl::make_unexpected(part.error());
  Json json = {{"model", &file - files_.data()},
               {"name", file.layers->name()},
               {"chunk_bytes", telemetry_.chunk_bytes.load()},
               {"by", what},
               {"total", total},
               {"first", part->first}};
  if (what == "chunk") {
    std::string states;
    for (uint64_t i = part->first; i < part->first + part->count; ++i) {
      const ChunkView chunk = i < chunks.size() ? chunks[i] : ChunkView{};
      const auto state = static_cast<size_t>(chunk.state);
      states += chunk.is_pinned ? pinned_letters[state] : state_letters[state];
    }
    json["states"] = std::move(states);
    return json;
  }
  json["rows"] = Json::array();
  if (what == "block") {
    const std::vector<std::string> files =
        total > 0 ? pager_.lazy_files() : std::vector<std::string>{};
    for (const MemoryBlock& it : std::span(blocks).subspan(part->first, part->count))
      json["rows"].push_back(block_row(it, files, telemetry_.chunk_bytes));
    return json;
  }
  const auto row_of = what == "layer" ? layer_row : tensor_row;
  for (uint64_t i = part->first; i < part->first + part->count; ++i) {
    json["rows"].push_back(
        row_of(*file.layers, static_cast<uint32_t>(i), telemetry_.chunk_bytes, chunks));
  }
  return json;
}

// ---- Events ----

Result<Json> PagerAnswers::trace(const ControlRequest& request) {
  if (auto known = request.expect_only({"do", "trace"}); !known) {
    return forward_error(std::move(known));
  }
  const auto what = request.text("do");
  if (!what) return tl::make_unexpected(what.error());
  const auto number = request.number("trace");
  if (!number) return tl::make_unexpected(number.error());
  if (what->value_or("") == "start") {
    // A client that traced before gets an error from now on, and not another client's events.
    end_trace();
    events_ = std::make_unique<telemetry::EventRing>();
    pager_.trace_to(events_.get());
    return Json{{"trace", ++traces_}, {"time_ns", monotonic_ns()}};
  }
  if (what->value_or("") != "take" && what->value_or("") != "stop") {
    return fail("trace: it is not said what to do", "\"do\" is start, take or stop");
  }
  if (!events_ || number->value_or(traces_) != traces_) {
    return fail("this trace has ended", "another client may have started one");
  }
  if (**what == "stop") {
    const uint64_t lost = events_->lost();
    end_trace();
    return Json{{"lost", lost}};
  }
  look_at_files();
  std::vector<telemetry::Event> events(events_max);
  events.resize(events_->take(events));
  Json json = {{"lost", events_->lost()}, {"events", Json::array()}};
  for (const telemetry::Event& event : events) {
    const size_t model = file_of(event.chunk);
    json["events"].push_back(
        event_row(event, model, model == files_.size() ? nullptr : &files_[model]));
  }
  return json;
}

// ---- Changes ----

Result<Json> PagerAnswers::change(const ControlRequest& request) {
  if (auto known = request.expect_only({"window", "policy", "pin", "evict", "drop", "model"});
      !known) {
    return forward_error(std::move(known));
  }
  const uint64_t now_ns = monotonic_ns();
  if (now_ns - changed_ns_ < changes_apart_ns) {
    return fail("set: the last change was less than 50 ms ago", "ask again in a moment");
  }
  changed_ns_ = now_ns;
  const auto window = request.text("window");
  if (!window) return tl::make_unexpected(window.error());
  if (*window) return set_window(**window);
  const auto policy = request.text("policy");
  if (!policy) return tl::make_unexpected(policy.error());
  if (*policy) return set_policy(**policy);
  const auto pin = request.text("pin");
  if (!pin) return tl::make_unexpected(pin.error());
  if (*pin) return this->pin(request, **pin);
  const auto evict = request.text("evict");
  if (!evict) return tl::make_unexpected(evict.error());
  if (*evict) return this->evict(request, **evict);
  const auto drop = request.text("drop");
  if (!drop) return tl::make_unexpected(drop.error());
  if (*drop) return this->drop(**drop);
  return fail("set: nothing to set", "it takes one of window, policy, pin, evict, drop");
}

Result<Json> PagerAnswers::set_window(const std::string& text) {
  const auto wanted = parse_size(text, "window");
  if (!wanted) return tl::make_unexpected(wanted.error());
  if (*wanted < window_bytes_min || *wanted > pager_.window_bytes_max()) {
    return fail(
        "window: " + format_size(*wanted) + " is not possible here",
        "from " + format_size(window_bytes_min) + " to " + format_size(pager_.window_bytes_max()));
  }
  const uint64_t before = telemetry_.window_bytes;
  return change_json("window_bytes", before, pager_.resize(*wanted));
}

std::string PagerAnswers::policy_text() const {
  return std::string(pager_.adapts() ? policy::adaptive_policy
                                     : policy::policy_name(telemetry_.policy));
}

Result<Json> PagerAnswers::set_policy(const std::string& name) {
  const std::string before = policy_text();
  const Status changed = pager_.change_policy(name);
  if (!changed) return tl::make_unexpected(changed.error());
  return change_json("policy", before, policy_text());
}

// A chunk that a layer shares with its neighbour counts as the layer's own.
Result<std::vector<window::ChunkId>> PagerAnswers::chunks_of_layers(const ControlRequest& request,
                                                                    const std::string& text,
                                                                    const std::string& key) {
  look_at_files();
  const auto model = model_meant(request);
  if (!model) return tl::make_unexpected(model.error());
  const FileView& file = **model;
  const auto& named = file.layers->model();
  const auto layers = parse_layers(text, static_cast<uint32_t>(named.layers.size()), key);
  if (!layers) return tl::make_unexpected(layers.error());
  const uint64_t chunk_bytes = telemetry_.chunk_bytes;
  std::vector<bool> is_named(file.chunks, text == "all");
  for (const uint32_t layer : *layers) {
    for (const uint32_t tensor : named.layers[layer].tensors) {
      const model::Tensor& it = named.tensors[tensor];
      for (uint64_t at = it.offset_bytes / chunk_bytes;
           at < file.chunks && at * chunk_bytes < it.offset_bytes + it.size_bytes; ++at) {
        is_named[at] = true;
      }
    }
  }
  std::vector<window::ChunkId> chunks;
  for (uint32_t i = 0; i < file.chunks; ++i) {
    if (is_named[i]) chunks.push_back(file.first_chunk + i);
  }
  return chunks;
}

Result<Json> PagerAnswers::pin(const ControlRequest& request, const std::string& text) {
  const auto chunks = chunks_of_layers(request, text, "pin");
  if (!chunks) return tl::make_unexpected(chunks.error());
  const uint64_t chunk_bytes = telemetry_.chunk_bytes;
  const uint32_t pinned = pager_.keep(*chunks);
  if (pinned == 0 && !chunks->empty()) {
    pager_.keep({});
    const std::string policy(policy::policy_name(telemetry_.policy));
    return fail("pin: policy " + policy + " has no room for them in this window",
                "policies pin-stream, expert and learned pin; a larger window has more room");
  }
  Json change = change_json("pin", kept_text_, text);
  kept_text_ = text;
  change["wanted_bytes"] = chunks->size() * chunk_bytes;
  change["pinned_bytes"] = pinned * chunk_bytes;
  return change;
}

Result<Json> PagerAnswers::evict(const ControlRequest& request, const std::string& text) {
  const auto chunks = chunks_of_layers(request, text, "evict");
  if (!chunks) return tl::make_unexpected(chunks.error());
  const uint64_t before = telemetry_.resident_bytes;
  return eviction_json(before, pager_.evict(*chunks));
}

Result<Json> PagerAnswers::drop(const std::string& what) {
  if (what != "unpinned") return fail("drop: unknown " + what, "it takes unpinned");
  const uint64_t before = telemetry_.resident_bytes;
  return eviction_json(before, pager_.drop());
}

// The pager has not counted these evictions yet.
Json PagerAnswers::eviction_json(uint64_t resident_bytes_before, uint32_t evicted_chunks) const {
  const uint64_t evicted_bytes = evicted_chunks * telemetry_.chunk_bytes.load();
  Json change = change_json("resident_bytes", resident_bytes_before,
                            resident_bytes_before - std::min(resident_bytes_before, evicted_bytes));
  change["evicted_bytes"] = evicted_bytes;
  return change;
}

// ---- Asking the pager ----

void PagerAnswers::look_at_files() {
  const uint64_t now_ns = monotonic_ns();
  if (files_seen_ns_ != 0 && now_ns - files_seen_ns_ < files_age_ns) return;
  files_seen_ns_ = now_ns;
  for (size_t count = std::max<size_t>(files_.size(), 1);;) {
    files_.resize(count);
    count = pager_.look(files_);
    if (count > files_.size()) continue;
    files_.resize(count);
    return;
  }
}

void PagerAnswers::look_at_chunks() {
  const uint64_t now_ns = monotonic_ns();
  const uint64_t age_ns = std::max(chunks_age_ns, looking_share * looking_took_ns_);
  if (chunks_seen_ns_ != 0 && now_ns - chunks_seen_ns_ < age_ns) return;
  chunks_seen_ns_ = now_ns;
  for (uint32_t first = 0;; first += chunks_at_once) {
    chunks_.resize(first + size_t{chunks_at_once});
    const uint32_t chunks = pager_.look(first, std::span(chunks_).subspan(first));
    if (chunks > chunks_.size()) continue;
    chunks_.resize(chunks);
    break;
  }
  looking_took_ns_ = monotonic_ns() - now_ns;
}

std::span<const ChunkView> PagerAnswers::chunks_of(const FileView& file) const {
  const size_t begin = std::min<size_t>(file.first_chunk, chunks_.size());
  return std::span(chunks_).subspan(begin, std::min<size_t>(file.chunks, chunks_.size() - begin));
}

// Those of files are none. Chunks and blocks are looked at one after the other, so a block that
// came in between may have chunks of another.
std::vector<MemoryBlock> PagerAnswers::blocks_of(const FileView& file) const {
  if (!file.is_memory) return {};
  return memory_blocks(file, chunks_of(file), telemetry_.chunk_bytes);
}

std::vector<MemoryBlock> PagerAnswers::all_blocks() {
  std::vector<MemoryBlock> all;
  for (const FileView& file : files_) {
    if (!file.is_memory) continue;
    look_at_chunks();
    const auto blocks = blocks_of(file);
    all.insert(all.end(), blocks.begin(), blocks.end());
  }
  return all;
}

size_t PagerAnswers::file_of(window::ChunkId chunk) const {
  const auto found = std::find_if(files_.begin(), files_.end(), [chunk](const FileView& it) {
    return chunk - it.first_chunk < it.chunks;
  });
  return static_cast<size_t>(found - files_.begin());
}

// The first model, unless the request names another one.
Result<const FileView*> PagerAnswers::model_meant(const ControlRequest& request) {
  const auto number = request.number("model");
  if (!number) return tl::make_unexpected(number.error());
  const uint64_t index = number->value_or(0);
  if (index < files_.size()) return &files_[index];
  return fail(
      "model " + std::to_string(index) + " is not there",
      files_.empty() ? "none is mapped now" : "from 0 to " + std::to_string(files_.size() - 1));
}

}  // namespace weightpager::control
