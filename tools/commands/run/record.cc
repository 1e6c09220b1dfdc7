#include "tools/commands/run/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "pager/model/model.h"
#include "pager/policy/layer_order.h"
#include "pager/simulate/trace_format.h"
#include "tools/cli/cli.h"

namespace weightpager::tools {
namespace {

namespace fs = std::filesystem;
using policy::ChunkId;
using simulate::Trace;
using telemetry::RecordedFile;
using telemetry::TouchRecord;

constexpr uint32_t nowhere = UINT32_MAX;

/// For each chunk its place in the order of a pass.
std::vector<uint32_t> places_in_pass(const Trace& trace) {
  std::vector<uint32_t> places(trace.chunks, nowhere);
  for (uint32_t at = 0; at < trace.order.cyclic.size(); ++at) places[trace.order.cyclic[at]] = at;
  return places;
}

void find_passes(Trace& trace) {
  const std::vector<uint32_t> places = places_in_pass(trace);
  const auto far = static_cast<uint32_t>(trace.order.cyclic.size() / 2);
  trace.pass_begins = {0};
  uint32_t last = 0;
  for (uint64_t i = 0; i < trace.touches.size(); ++i) {
    const uint32_t place = places[trace.touches[i].chunk];
    if (place == nowhere) continue;
    if (far > 0 && place + far < last) trace.pass_begins.push_back(i);
    last = place;
  }
}

}  // namespace

Result<Trace> trace_of(const TouchRecord& record) {
  Trace trace;
  trace.chunk_bytes = record.chunk_bytes();
  for (const RecordedFile& file : record.files()) {
    trace.name += (trace.name.empty() ? "" : ", ") + fs::path(file.path).filename().string();
    trace.chunks = std::max(trace.chunks, file.first_chunk + file.chunks);
    const auto model = model::open_model_file(file.path);
    if (!model) continue;
    policy::append_chunk_order(*model, 0,
                               {.first = file.first_chunk,
                                .count = file.chunks,
                                .offset_bytes = 0,
                                .chunk_bytes = trace.chunk_bytes},
                               trace.order);
  }
  trace.touches = simulate::touches_of(record.touches());
  if (trace.touches.empty()) {
    return fail("--record: no touch of a model was seen",
                "did the engine map one? See the summary");
  }
  find_passes(trace);
  if (auto sound = simulate::check(trace, "--record"); !sound)
    return forward_error(std::move(sound));
  return trace;
}

Status keep_record(const std::string& run_directory, ReportFile& file) {
  const TouchRecord* longest = nullptr;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run_directory, ignored)) {
    if (entry.path().extension() != ".touches") continue;
    const auto record = TouchRecord::open(entry.path().string());
    if (!record) return tl::make_unexpected(record.error());
    if (longest == nullptr || (*record)->touches().size() > longest->touches().size()) {
      longest = *record;
    }
  }
  if (longest == nullptr) {
    return fail("--record: no process has mapped a model", "`weightpager run --help`: --match");
  }
  const auto trace = trace_of(*longest);
  if (!trace) return tl::make_unexpected(trace.error());
  if (longest->lost() > 0) {
    print(stderr, fmt::format("weightpager: --record: only the first {} touches are in the trace\n",
                              trace->touches.size()));
  }
  const auto bytes = simulate::encode(*trace);
  return file.commit({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace weightpager::tools
