#include "tools/formats/trace_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "pager/simulate/trace_format.h"

namespace weightpager::tools {
namespace {

using Json = nlohmann::ordered_json;
using simulate::Touch;
using simulate::Trace;

Json expert_json(const policy::ExpertChunks& expert) {
  Json slabs = Json::array();
  for (const auto& slab : expert.slabs) {
    Json parts = Json::array();
    for (const auto& part : slab) parts.push_back({part.chunk, part.begin_bytes, part.end_bytes});
    slabs.push_back(std::move(parts));
  }
  return {{"layer", expert.layer}, {"slabs", std::move(slabs)}};
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
  if (json.contains("shared")) trace.order.shared = numbers_32_of(json.at("shared"));
  for (const Json& it : json.at("pass_begins").get_ref<const Json::array_t&>()) {
    trace.pass_begins.push_back(number_of(it));
  }
  if (json.contains("threads")) {
    trace.threads = number_32_of(json.at("threads"));
    for (const Json& part : json.at("parts").get_ref<const Json::array_t&>()) {
      const Json& thread = part.at(1);
      trace.parts.push_back({number_of(part.at(0)),
                             thread.is_null() ? simulate::any_thread : number_32_of(thread),
                             part.at(2).get<bool>()});
    }
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

}  // namespace

std::string trace_json(const Trace& trace) {
  Json json = {{"name", trace.name},
               {"chunk_bytes", trace.chunk_bytes},
               {"chunks", trace.chunks},
               {"cyclic", trace.order.cyclic},
               {"layer_begins", trace.order.layer_begins},
               {"revisited", trace.order.revisited},
               {"shared", trace.order.shared},
               {"experts", Json::array()},
               {"pass_begins", trace.pass_begins},
               {"touches", Json::array()}};
  for (const auto& expert : trace.order.experts) json["experts"].push_back(expert_json(expert));
  if (trace.threads > 1) {
    json["threads"] = trace.threads;
    json["parts"] = Json::array();
    for (const simulate::ThreadPart& part : trace.parts) {
      const Json thread = part.thread == simulate::any_thread ? Json() : Json(part.thread);
      json["parts"].push_back({part.begin, thread, part.is_met});
    }
  }
  for (const Touch& touch : trace.touches) {
    const Json offset = touch.offset_bytes == policy::anywhere ? Json() : Json(touch.offset_bytes);
    json["touches"].push_back({touch.chunk, offset, touch.compute_ns});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Trace> parse_trace_json(std::string_view text, const std::string& path) {
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

}  // namespace weightpager::tools
