// The table of file formats: what tells each one, by name and by content, and who reads it.
//
// Whatever is said of formats comes from here: which parser reads a file (model.cc), which files
// are models (recognise.h), which are refused because they are not what their name promises
// (plain.cc), and what help and errors list. The steps for a new format are in
// docs/explanation/architecture.md. A file of none of these formats is a plain one.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "pager/model/parsers.h"

namespace weightpager::model {

/// As many of a file's first bytes tell its format.
inline constexpr size_t start_bytes = 9;

struct KnownFormat {
  Format format = Format::plain;
  /// For programs: "gguf".
  const char* name = nullptr;
  /// For people: "GGUF".
  std::string_view title;
  /// ".gguf"; names of files have it in any case. "": no ending promises this format; files are
  /// known by their content alone.
  std::string_view ending;
  /// How a file begins, for errors: "the bytes 'GGUF'".
  std::string_view start;
  /// Whether a file of this format, of any version, may begin with these bytes: the parser says
  /// HeaderReader::unknown() of a version that it does not know, and the file is paged in file
  /// order instead of refused. `bytes` has `start_bytes`, or all of a shorter file. Allocates
  /// nothing.
  bool (*begins_like)(std::string_view bytes) = nullptr;
  /// Whether no other files begin so. Where some do, looks_like_model() has the header parsed, too.
  bool start_suffices = false;
  Result<ParsedFile> (*parse)(HeaderReader& reader) = nullptr;
};

/// One for each Format but Format::plain.
std::span<const KnownFormat> known_formats();

/// The format of a file with these first bytes; nullptr: it is a plain file. Allocates nothing.
const KnownFormat* format_by_start(std::string_view bytes);

/// Endings of files that are weights and nothing else, in any case: ".onnx.data". Such a file is
/// found by its name alone, and it is a plain one, whatever its content.
std::span<const std::string_view> endings_of_weights();

/// Whether `path` has one of endings_of_weights(). Allocates nothing.
bool is_named_weights(std::string_view path);

/// The format that a file's name promises by its ending, in any case; nullptr: none. Allocates
/// nothing.
const KnownFormat* format_by_ending(std::string_view path);

}  // namespace weightpager::model
