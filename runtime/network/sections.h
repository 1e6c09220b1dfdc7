// A .cfg as Darknet writes it: sections of `key=value` lines.
//
// Darknet only warns about things that it does not understand, and goes on with something else: an
// unknown activation becomes relu, an unknown key is left out. A program that loads such a file
// elsewhere gets other results and no hint why. Here every key must be asked for by name: for its
// value, or to be ignored because it matters to training only. A key that nobody asked for is an
// error, which names the line and lists the known keys.
//
// As in Darknet, spaces count nowhere, and `#` and `;` begin comments. (In Darknet, a comment
// behind a text value becomes part of the text.)
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pager/base/result.h"
#include "runtime/network/network.h"

namespace weightpager::network {

struct SectionOption {
  std::string key;
  std::string value;
  uint32_t line = 0;
};

struct Section {
  /// The section's name, without brackets.
  std::string name;
  uint32_t line = 0;
  std::vector<SectionOption> options;
};

/// `file` is what errors call the text.
Result<std::vector<Section>> split_sections(std::string_view text, const std::string& file);

/// More channels, pixels in a row, filters or outputs than any network has, and few enough that
/// products of three of them fit into 64 bits.
inline constexpr uint32_t dimension_max = 1 << 20;

/// Reads one section's options by name. The first failure sticks: from then on every answer is the
/// default, and the caller looks at `finish` at the end. If a key is given twice, both values must
/// be the same.
class SectionReader {
 public:
  SectionReader(const Section& section, const std::string& file) : section_(section), file_(file) {}

  uint32_t number(std::string_view key, uint32_t otherwise, uint32_t least,
                  uint32_t most = dimension_max);
  /// As in C: anything but 0 is true.
  bool flag(std::string_view key) { return number(key, 0, 0) != 0; }
  /// A finite number.
  double real(std::string_view key, double otherwise);
  Activation activation(Activation otherwise);
  /// The index of the key's value among `values`; 0 if the key is not there.
  size_t choice(std::string_view key, std::initializer_list<std::string_view> values);
  /// Numbers separated by commas, each from `least` to `most`; empty if the key is not there.
  std::vector<int32_t> numbers(std::string_view key, int32_t least, int32_t most);
  std::vector<float> reals(std::string_view key);

  /// For keys whose effect is not computed here: fails unless each has `value`, which has no
  /// effect.
  void expect(std::initializer_list<std::string_view> keys, double value);
  /// Ignores keys that do not matter to an inference; `keys` has spaces between them.
  void ignore(std::string_view keys);

  /// Records the failure "<file>, line <of the key, or of the section>: <message>".
  void refuse(std::string_view key, std::string_view message, std::string_view hint = {});

  bool ok() const { return !error_.has_value(); }
  /// The first failure. If there was none, an error for the first key that nobody asked for.
  Status finish();

 private:
  const SectionOption* find(std::string_view key);
  uint32_t line_of(std::string_view key) const;
  void refuse_value(const SectionOption& option, std::string_view expected);
  void refuse_unknown(const SectionOption& option);

  const Section& section_;
  const std::string& file_;
  std::vector<std::string_view> used_;
  std::vector<std::string_view> ignored_;
  std::optional<Error> error_;
};

}  // namespace weightpager::network
