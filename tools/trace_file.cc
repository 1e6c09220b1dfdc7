#include "tools/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "pager/base/memory_room.h"
#include "pager/base/units.h"
#include "pager/base/whole_file.h"
#include "pager/simulate/trace_format.h"
#include "tools/report_file.h"

namespace weightpager::tools {
namespace {

using Json = nlohmann::ordered_json;
using simulate::Touch;
using simulate::Trace;

constexpr size_t magic_bytes = 8;
constexpr uint64_t file_bytes_max = 4 * GiB;
/// Of a touch's 3 bytes or more, and of a number's 2: what they become in memory.
constexpr uint64_t binary_expansion = 8;
constexpr uint64_t json_expansion = 24;

// ---- JSON ----

Json expert_json(const policy::ExpertChunks& expert) {
  Json slabs = Json::array();
  for (const auto& slab : expert.slabs) {
    Json parts = Json::array();
    for (const auto& part : slab) parts.push_back({part.chunk, part.begin_bytes, part.end_bytes});
    slabs.push_back(std::move(parts));
  }
  return {{"layer", expert.layer}, {"slabs", std::move(slabs)}};
}

std::string trace_json(const Trace& trace) {
  Json json = {{"name", trace.name},
               {"chunk_bytes", trace.chunk_bytes},
               {"chunks", trace.chunks},
               {"cyclic", trace.order.cyclic},
               {"layer_begins", trace.order.layer_begins},
               {"revisited", trace.order.revisited},
               {"experts", Json::array()},
               {"pass_begins", trace.pass_begins},
               {"touches", Json::array()}};
  for (const auto& expert : trace.order.experts) json["experts"].push_back(expert_json(expert));
  for (const Touch& touch : trace.touches) {
    const Json offset = touch.offset_bytes == policy::anywhere ? Json() : Json(touch.offset_bytes);
    json["touches"].push_back({touch.chunk, offset, touch.compute_ns});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// What is missing or of another kind throws, within from_json alone: also what is no whole number
// from 0 on, which the library would make one of without a word.
uint64_t number_of(const Json& json) { return json.get_ref<const Json::number_unsigned_t&>(); }

// Larger ones are beyond every bound that check() has, and not `anywhere`.
uint32_t number_32_of(const Json& json) {
  return static_cast<uint32_t>(std::min<uint64_t>(number_of(json), policy::anywhere - 1));
}

std::vector<uint32_t> numbers_32_of(const Json& json) {
  std::vector<uint32_t> numbers;
  for (const Json& it : json.get_ref<const Json::array_t&>()) numbers.push_back(number_32_of(it));
  return numbers;
}

Trace trace_of(const Json& json) {
  Trace trace;
  trace.name = json.at("name");
  trace.chunk_bytes = number_of(json.at("chunk_bytes"));
  trace.chunks = number_32_of(json.at("chunks"));
  trace.order.cyclic = numbers_32_of(json.at("cyclic"));
  trace.order.layer_begins = numbers_32_of(json.at("layer_begins"));
  trace.order.revisited = numbers_32_of(json.at("revisited"));
  for (const Json& it : json.at("pass_begins").get_ref<const Json::array_t&>()) {
    trace.pass_begins.push_back(number_of(it));
  }
  for (const Json& from : json.at("experts").get_ref<const Json::array_t&>()) {
    policy::ExpertChunks expert{.layer = number_32_of(from.at("layer")), .slabs = {}};
    for (const Json& slab : from.at("slabs").get_ref<const Json::array_t&>()) {
      std::vector<policy::ChunkPart> parts;
      for (const Json& part : slab.get_ref<const Json::array_t&>()) {
        parts.push_back(
            {number_32_of(part.at(0)), number_32_of(part.at(1)), number_32_of(part.at(2))});
      }
      expert.slabs.push_back(std::move(parts));
    }
    trace.order.experts.push_back(std::move(expert));
  }
  for (const Json& from : json.at("touches").get_ref<const Json::array_t&>()) {
    const Json& offset = from.at(1);
    trace.touches.push_back({number_32_of(from.at(0)),
                             offset.is_null() ? policy::anywhere : number_32_of(offset),
                             number_of(from.at(2))});
  }
  return trace;
}

Result<Trace> from_json(std::string_view text, const std::string& path) {
  Trace trace;
  try {
    trace = trace_of(Json::parse(text));
  } catch (const Json::exception& problem) {
    return fail(fmt::format("{}: not a trace: {}", path, problem.what()),
                "`weightpager trace convert FILE -o FILE.json` shows what one looks like");
  }
  if (auto sound = simulate::check(trace, path); !sound) return forward_error(std::move(sound));
  return trace;
}

// ---- CSV ----

std::string touches_csv(const Trace& trace) {
  std::string text = "pass,chunk,offset_bytes,compute_ns\n";
  for (size_t pass = 0; pass < trace.pass_begins.size(); ++pass) {
    for (uint64_t place = trace.pass_begins[pass]; place < trace.pass_end(pass); ++place) {
      const Touch& touch = trace.touches[place];
      const bool is_known = touch.offset_bytes != policy::anywhere;
      text += fmt::format("{},{},{},{}\n", pass, touch.chunk,
                          is_known ? fmt::to_string(touch.offset_bytes) : "", touch.compute_ns);
    }
  }
  return text;
}

bool is_binary(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::byte> head(magic_bytes);
  file.read(reinterpret_cast<char*>(head.data()), magic_bytes);
  return file && simulate::looks_like_trace(head);
}

}  // namespace

bool is_trace_file(const std::string& path) {
  return std::string_view(path).ends_with(".json") || is_binary(path);
}

Result<Trace> parse_trace(std::string_view text, const std::string& path) {
  if (text.starts_with('{')) return from_json(text, path);
  return simulate::decode(std::as_bytes(std::span(text)), path);
}

Result<Trace> read_trace(const std::string& path) {
  std::error_code unknown;
  const uint64_t file_bytes = std::filesystem::file_size(path, unknown);
  if (!unknown) {
    const bool is_json = !is_binary(path);
    const MemoryNeed need = {.what = path + ": reading this trace",
                             .bytes = file_bytes * (is_json ? json_expansion : binary_expansion)};
    if (Status fits = check_room(need, ""); !fits) return forward_error(std::move(fits));
  }
  const auto text = read_whole_file(path, file_bytes_max, "a trace");
  if (!text) return tl::make_unexpected(text.error());
  return parse_trace(*text, path);
}

Status write_trace(const Trace& trace, const std::string& path, const std::string& option) {
  auto file = ReportFile::create(path, option);
  if (!file) return forward_error(std::move(file));
  if (path.ends_with(".json")) return file->commit(trace_json(trace));
  if (path.ends_with(".csv")) return file->commit(touches_csv(trace));
  const std::vector<std::byte> bytes = simulate::encode(trace);
  return file->commit({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace weightpager::tools
