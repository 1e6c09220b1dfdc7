// Sizes are read with integers only: a size that goes through a double loses bytes above 2^53, and
// strtod would accept "nan", "0x10" and "1e9".
#include "pager/base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>

namespace weightpager {
namespace {

struct Unit {
  std::string_view suffix;
  uint64_t bytes;
};

constexpr std::array<Unit, 8> units{{{"K", KiB},
                                     {"KiB", KiB},
                                     {"M", MiB},
                                     {"MiB", MiB},
                                     {"G", GiB},
                                     {"GiB", GiB},
                                     {"T", 1024 * GiB},
                                     {"TiB", 1024 * GiB}}};

constexpr std::string_view examples =
    "examples: 512MiB, 1.5GiB, 8GiB; K, M, G, T are powers of 1024";

/// More digits than this say nothing about bytes, and would overflow the arithmetic below.
constexpr size_t fraction_digits_max = 12;

constexpr std::string_view digits = "0123456789";

/// Cuts the leading run of digits off `text`.
std::string_view take_digits(std::string_view& text) {
  const size_t length = std::min(text.find_first_not_of(digits), text.size());
  const std::string_view taken = text.substr(0, length);
  text.remove_prefix(length);
  return taken;
}

std::optional<uint64_t> to_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// 1 without a suffix; nullopt for a suffix that is no unit.
std::optional<uint64_t> unit_bytes(std::string_view suffix) {
  if (suffix.empty()) return 1;
  for (const Unit& unit : units)
    if (unit.suffix == suffix) return unit.bytes;
  return std::nullopt;
}

/// Whether it is a unit like `GB`. People do not agree on its meaning (powers of 1000?).
bool is_decimal_unit(std::string_view suffix) {
  return suffix.size() == 2 && suffix[1] == 'B' && unit_bytes(suffix.substr(0, 1)).has_value();
}

/// The bytes of `0.<fraction>` units, rounded down.
uint64_t fraction_bytes(std::string_view fraction, uint64_t unit) {
  unsigned __int128 numerator = 0;
  unsigned __int128 denominator = 1;
  for (const char digit : fraction) {
    numerator = numerator * 10 + static_cast<unsigned>(digit - '0');
    denominator *= 10;
  }
  return static_cast<uint64_t>(numerator * unit / denominator);
}

}  // namespace

Result<uint64_t> parse_size(std::string_view text, std::string_view what) {
  const auto refuse = [&](std::string_view reason) {
    return fail(fmt::format("{}: '{}' {}", what, text, reason), std::string(examples));
  };

  std::string_view rest = text;
  const std::string_view whole_digits = take_digits(rest);
  if (whole_digits.empty()) return refuse("is not a size");

  const bool has_fraction = rest.substr(0, 1) == ".";
  if (has_fraction) rest.remove_prefix(1);
  const std::string_view fraction = has_fraction ? take_digits(rest) : std::string_view();
  if (has_fraction && fraction.empty()) return refuse("has no digits after the point");
  if (fraction.size() > fraction_digits_max) return refuse("has too many digits after the point");

  if (is_decimal_unit(rest))
    return refuse(fmt::format("has a decimal unit; write {}{}iB",
                              text.substr(0, text.size() - rest.size()), rest.substr(0, 1)));
  const std::optional<uint64_t> unit = unit_bytes(rest);
  if (!unit) return refuse(fmt::format("has the unknown unit '{}'", rest));
  if (has_fraction && *unit == 1) return refuse("is not a whole number of bytes");

  const std::optional<uint64_t> whole = to_number(whole_digits);
  uint64_t size = 0;
  if (!whole || __builtin_mul_overflow(*whole, *unit, &size) ||
      __builtin_add_overflow(size, fraction_bytes(fraction, *unit), &size))
    return refuse("is too large");
  return size;
}

std::string format_size(uint64_t bytes) {
  if (bytes < KiB) return fmt::format("{} B", bytes);
  constexpr std::array<std::string_view, 6> names{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / KiB;
  size_t name = 0;
  // From 1023.95 on, one decimal would round to 1024.0 of the smaller unit.
  for (; value >= 1023.95 && name + 1 < names.size(); ++name) value /= 1024;
  return fmt::format("{:.1f} {}", value, names[name]);
}

}  // namespace weightpager
