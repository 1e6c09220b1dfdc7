// Splitting a .cfg and reading its options: see sections.h.
#include "runtime/network/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "pager/base/text_lines.h"
#include "pager/model/header_reader.h"

namespace weightpager::network {
namespace {

using model::quote_name;

constexpr std::array activations = {Activation::linear,   Activation::leaky, Activation::relu,
                                    Activation::logistic, Activation::mish,  Activation::swish};

bool is_space(char character) {
  return character == ' ' || character == '\t' || character == '\r' || character == '\v' ||
         character == '\f';
}

/// Removes spaces and comments.
std::string strip(std::string_view line) {
  line = line.substr(0, line.find_first_of("#;"));
  std::string stripped;
  std::copy_if(line.begin(), line.end(), std::back_inserter(stripped),
               [](char character) { return !is_space(character); });
  return stripped;
}

tl::unexpected<Error> bad_line(const std::string& file, uint32_t line, std::string_view expected,
                               std::string_view found) {
  return fail(
      fmt::format("{}, line {}: expected {}, found {}", file, line, expected, quote_name(found)));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

template <typename T>
std::optional<T> parse(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_real(std::string_view text) {
  const std::optional<double> value = parse<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

bool contains(const std::vector<std::string_view>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

}  // namespace

Result<std::vector<Section>> split_sections(std::string_view text, const std::string& file) {
  std::vector<Section> sections;
  uint32_t number = 0;
  text = without_byte_order_mark(text);
  while (!text.empty()) {
    ++number;
    const std::string line = strip(take_line(text));
    if (line.empty()) continue;
    if (line.front() == '[') {
      if (line.back() != ']') return bad_line(file, number, "']' behind the section's name", line);
      sections.push_back({line.substr(1, line.size() - 2), number, {}});
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == line.size())
      return bad_line(file, number, "key=value", line);
    if (sections.empty()) return bad_line(file, number, "[net] before the first key", line);
    sections.back().options.push_back({line.substr(0, equals), line.substr(equals + 1), number});
  }
  return sections;
}

const SectionOption* SectionReader::find(std::string_view key) {
  used_.push_back(key);
  if (!ok()) return nullptr;
  const SectionOption* found = nullptr;
  for (const SectionOption& option : section_.options) {
    if (option.key != key) continue;
    if (found == nullptr) {
      found = &option;
    } else if (option.value != found->value) {
      refuse_value(option, fmt::format("the value of line {}", found->line));
      return nullptr;
    }
  }
  return found;
}

uint32_t SectionReader::line_of(std::string_view key) const {
  const auto found = std::find_if(section_.options.begin(), section_.options.end(),
                                  [&](const SectionOption& option) { return option.key == key; });
  return found == section_.options.end() ? section_.line : found->line;
}

void SectionReader::refuse(std::string_view key, std::string_view message, std::string_view hint) {
  if (!ok()) return;
  error_ = Error{fmt::format("{}, line {}: {}", file_, line_of(key), message), std::string(hint)};
}

void SectionReader::refuse_value(const SectionOption& option, std::string_view expected) {
  if (!ok()) return;
  error_ =
      Error{fmt::format("{}, line {}: expected {} for {} of [{}], found {}", file_, option.line,
                        expected, option.key, section_.name, quote_name(option.value)),
            {}};
}

uint32_t SectionReader::number(std::string_view key, uint32_t otherwise, uint32_t least,
                               uint32_t most) {
  const SectionOption* const option = find(key);
  if (option == nullptr) return otherwise;
  const std::optional<uint32_t> value = parse<uint32_t>(option->value);
  if (value && *value >= least && *value <= most) return *value;
  refuse_value(*option, fmt::format("a number from {} to {}", least, most));
  return otherwise;
}

double SectionReader::real(std::string_view key, double otherwise) {
  const SectionOption* const option = find(key);
  if (option == nullptr) return otherwise;
  const std::optional<double> value = parse_real(option->value);
  if (!value) refuse_value(*option, "a number");
  return value.value_or(otherwise);
}

size_t SectionReader::choice(std::string_view key, std::initializer_list<std::string_view> values) {
  const SectionOption* const option = find(key);
  if (option == nullptr) return 0;
  const auto* const found = std::find(values.begin(), values.end(), option->value);
  if (found != values.end()) return static_cast<size_t>(found - values.begin());
  refuse_value(*option, fmt::format("one of {}", fmt::join(values, ", ")));
  return 0;
}

Activation SectionReader::activation(Activation otherwise) {
  const SectionOption* const option = find("activation");
  if (option == nullptr) return otherwise;
  std::vector<std::string_view> names;
  for (const Activation activation : activations) {
    if (option->value == activation_name(activation)) return activation;
    names.push_back(activation_name(activation));
  }
  refuse_value(*option, fmt::format("one of {}", fmt::join(names, ", ")));
  return otherwise;
}

std::vector<int32_t> SectionReader::numbers(std::string_view key, int32_t least, int32_t most) {
  const SectionOption* const option = find(key);
  if (option == nullptr) return {};
  std::vector<int32_t> values;
  for (const std::string_view part : split(option->value, ',')) {
    const std::optional<int32_t> value = parse<int32_t>(part);
    if (!value || *value < least || *value > most) {
      refuse_value(*option, fmt::format("numbers from {} to {}, with commas", least, most));
      return {};
    }
    values.push_back(*value);
  }
  return values;
}

std::vector<float> SectionReader::reals(std::string_view key) {
  const SectionOption* const option = find(key);
  if (option == nullptr) return {};
  std::vector<float> values;
  for (const std::string_view part : split(option->value, ',')) {
    const std::optional<double> value = parse_real(part);
    if (!value) {
      refuse_value(*option, "numbers with commas");
      return {};
    }
    values.push_back(static_cast<float>(*value));
  }
  return values;
}

void SectionReader::expect(std::initializer_list<std::string_view> keys, double value) {
  for (const std::string_view key : keys) {
    const SectionOption* const option = find(key);
    if (option != nullptr && parse_real(option->value) != value)
      refuse_value(*option, fmt::format("{}, since nothing else is computed here,", value));
  }
}

void SectionReader::ignore(std::string_view keys) {
  for (const std::string_view key : split(keys, ' ')) ignored_.push_back(key);
}

void SectionReader::refuse_unknown(const SectionOption& option) {
  error_ = Error{fmt::format("{}, line {}: expected a key of [{}], found {}", file_, option.line,
                             section_.name, quote_name(option.key)),
                 fmt::format("keys that count: {}; keys of training, which are ignored: {}",
                             fmt::join(used_, ", "), fmt::join(ignored_, ", "))};
}

Status SectionReader::finish() {
  if (ok()) {
    const auto unknown = std::find_if(
        section_.options.begin(), section_.options.end(), [&](const SectionOption& option) {
          return !contains(used_, option.key) && !contains(ignored_, option.key);
        });
    if (unknown != section_.options.end()) refuse_unknown(*unknown);
  }
  if (!ok()) return tl::make_unexpected(std::move(*error_));
  return {};
}

}  // namespace weightpager::network
