#include "tools/arguments/window_argument.h"

#include <fmt/core.h>

#include <charconv>

namespace weightpager::tools {
namespace {

/// A window of a few times the model is harmless; a larger share is a typing error.
constexpr double percent_max = 1000;

bool is_share(const std::string& text) { return !text.empty() && text.back() == '%'; }

Result<uint64_t> parse_share_of_model(const std::string& text, uint64_t model_bytes) {
  double percent = 0;
  const char* const end = text.data() + text.size() - 1;
  const auto [stopped_at, problem] = std::from_chars(text.data(), end, percent);
  const bool is_number = problem == std::errc{} && stopped_at == end;
  if (!is_number || !(percent > 0 && percent <= percent_max)) {
    return fail(fmt::format("--window {}: not a share of the model", text),
                "examples: --window 25%, --window 12.5%, --window 1GiB");
  }
  if (model_bytes == 0) {
    return fail(fmt::format("--window {}: no model file is among the engine's arguments", text),
                "give a size (--window 1GiB), or name the model's files with --match GLOB");
  }
  return static_cast<uint64_t>(static_cast<double>(model_bytes) * percent / 100);
}

}  // namespace

Result<uint64_t> parse_window(const std::string& text, uint64_t model_bytes,
                              const MemoryLimit& limit, const WindowGrain& grain) {
  auto window_bytes =
      is_share(text) ? parse_share_of_model(text, model_bytes) : parse_size(text, "--window");
  if (!window_bytes) return window_bytes;
  if (is_share(text)) window_bytes = round_down(*window_bytes, grain.step_bytes);
  if (*window_bytes < grain.bytes_min) {
    return fail(fmt::format("--window {} ({}) is too small", text, format_size(*window_bytes)),
                fmt::format("the smallest window is {}; a quarter of the model is a good start",
                            format_size(grain.bytes_min)));
  }
  if (*window_bytes > limit.bytes) {
    return fail(fmt::format("--window {} ({}) is more than the memory: {} is {}", text,
                            format_size(*window_bytes), limit.source, format_size(limit.bytes)),
                "leave room for the engine's own memory beside the window");
  }
  return window_bytes;
}

}  // namespace weightpager::tools
