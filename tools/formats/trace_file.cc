#include "tools/formats/trace_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

#include "pager/base/memory_room.h"
#include "pager/base/units.h"
#include "pager/base/whole_file.h"
#include "pager/simulate/trace_format.h"
#include "tools/formats/trace_json.h"
#include "tools/report/report_file.h"

namespace weightpager::tools {
namespace {

using simulate::Touch;
using simulate::Trace;

constexpr size_t magic_bytes = 8;
constexpr uint64_t trace_bytes_max = 4 * GiB;
/// Of a touch's 3 bytes or more, and of a number's 2: what they become in memory.
constexpr uint64_t binary_expansion = 8;
constexpr uint64_t json_expansion = 24;

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

Result<Trace> read_trace(const std::string& path) {
  std::error_code unknown;
  const uint64_t file_bytes = std::filesystem::file_size(path, unknown);
  if (!unknown) {
    const bool is_json = !is_binary(path);
    const MemoryNeed need = {.what = path + ": reading this trace",
                             .bytes = file_bytes * (is_json ? json_expansion : binary_expansion)};
    if (Status fits = check_room(need, ""); !fits) return forward_error(std::move(fits));
  }
  const auto text = read_whole_file(path, trace_bytes_max, "a trace");
  if (!text) return tl::make_unexpected(text.error());
  if (text->starts_with('{')) return parse_trace_json(*text, path);
  return simulate::decode(std::as_bytes(std::span(*text)), path);
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
