#include "tools/trace_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "pager/simulate/trace_format.h"
#include "tools/report_file.h"

namespace weightpager::tools {
namespace {

using Json = nlohmann::ordered_json;
using simulate::Touch;
using simulate::Trace;

constexpr size_t magic_bytes = 8;

Result<std::vector<std::byte>> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes;
  if (file) bytes.assign(std::istreambuf_iterator<char>(file), {});
  if (!file.is_open() || file.bad()) {
    return fail(fmt::format("cannot read {}: {}", path, std::strerror(errno)), "", errno);
  }
  const auto* const first = reinterpret_cast<const std::byte*>(bytes.data());
  return std::vector<std::byte>(first, first + bytes.size());
}

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

// What is missing or of another kind throws, within from_json alone.
Trace trace_of(const Json& json) {
  Trace trace;
  trace.name = json.at("name");
  trace.chunk_bytes = json.at("chunk_bytes");
  trace.chunks = json.at("chunks");
  trace.order.cyclic = json.at("cyclic").get<std::vector<policy::ChunkId>>();
  trace.order.layer_begins = json.at("layer_begins").get<std::vector<uint32_t>>();
  trace.order.revisited = json.at("revisited").get<std::vector<policy::ChunkId>>();
  trace.pass_begins = json.at("pass_begins").get<std::vector<uint64_t>>();
  for (const Json& from : json.at("experts")) {
    policy::ExpertChunks expert{.layer = from.at("layer"), .slabs = {}};
    for (const Json& slab : from.at("slabs")) {
      std::vector<policy::ChunkPart> parts;
      for (const Json& part : slab) parts.push_back({part.at(0), part.at(1), part.at(2)});
      expert.slabs.push_back(std::move(parts));
    }
    trace.order.experts.push_back(std::move(expert));
  }
  for (const Json& from : json.at("touches")) {
    const Json& offset = from.at(1);
    trace.touches.push_back(
        {from.at(0), offset.is_null() ? policy::anywhere : offset.get<uint32_t>(), from.at(2)});
  }
  return trace;
}

Result<Trace> from_json(const std::vector<std::byte>& bytes, const std::string& path) {
  const auto* const text = reinterpret_cast<const char*>(bytes.data());
  Trace trace;
  try {
    trace = trace_of(Json::parse(text, text + bytes.size()));
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

}  // namespace

bool is_trace_file(const std::string& path) {
  if (std::string_view(path).ends_with(".json")) return true;
  std::ifstream file(path, std::ios::binary);
  std::vector<std::byte> head(magic_bytes);
  file.read(reinterpret_cast<char*>(head.data()), magic_bytes);
  return file && simulate::looks_like_trace(head);
}

Result<Trace> read_trace(const std::string& path) {
  const auto bytes = read_bytes(path);
  if (!bytes) return tl::make_unexpected(bytes.error());
  const bool is_json = !bytes->empty() && bytes->front() == std::byte{'{'};
  return is_json ? from_json(*bytes, path) : simulate::decode(*bytes, path);
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
