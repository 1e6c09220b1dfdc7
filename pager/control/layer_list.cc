#include "pager/control/layer_list.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace weightpager::control {
namespace {

constexpr std::string_view prefix = "layers:";

bool parse(std::string_view text, uint32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

/// "3", "0-3".
bool parse_range(std::string_view text, uint32_t& first, uint32_t& last) {
  const size_t dash = text.find('-');
  if (!parse(text.substr(0, dash), first)) return false;
  last = first;
  return dash == std::string_view::npos || parse(text.substr(dash + 1), last);
}

}  // namespace

Result<std::vector<uint32_t>> parse_layers(const std::string& text, uint32_t layers,
                                           const std::string& key) {
  std::vector<bool> is_named(layers, text == "all");
  std::string_view rest = text;
  const bool is_list = rest.starts_with(prefix);
  if (!is_list && text != "all" && text != "none") {
    return fail(key + ": '" + text + "' names no layers", "as layers:0-3, layers:0-3,7, all, none");
  }
  if (is_list) rest.remove_prefix(prefix.size());
  for (bool has_more = is_list; has_more;) {
    const size_t comma = rest.find(',');
    uint32_t first = 0;
    uint32_t last = 0;
    if (!parse_range(rest.substr(0, comma), first, last) || first > last || last >= layers) {
      return fail(key + ": '" + text + "' names no layers that there are",
                  layers == 0
                      ? "there are none"
                      : "layers are 0 to " + std::to_string(layers - 1) + ", as in layers:0-3,7");
    }
    std::fill(is_named.begin() + first, is_named.begin() + last + 1, true);
    has_more = comma != std::string_view::npos;
    if (has_more) rest.remove_prefix(comma + 1);
  }
  std::vector<uint32_t> named;
  for (uint32_t layer = 0; layer < layers; ++layer) {
    if (is_named[layer]) named.push_back(layer);
  }
  return named;
}

}  // namespace weightpager::control
