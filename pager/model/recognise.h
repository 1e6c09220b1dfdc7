// What is a model: one decision, for the commands that look at an engine's arguments and for the
// interposer that sees what the engine maps.
//
// A file is one by its name, or by its first bytes. Names end like a model's, in any case, or match
// one of the user's globs. A link's name counts as well as that of the file behind it: Hugging
// Face's cache keeps pytorch_model.bin under its hash. That is why the interposer also notes what
// is opened (preload/opened_files.h), and why `run` hands it the files that it found (FileId).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weightpager::model {

/// A file, whatever its names.
struct FileId {
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const FileId&) const = default;
};

/// Files as text, for an environment variable: "device:inode,…". What is no such text is no file.
std::string format_file_ids(const std::vector<FileId>& files);
std::vector<FileId> parse_file_ids(std::string_view text);

/// A glob with a '/' is compared with whole paths: a relative one begins in `directory`, unless it
/// begins with '*', which stands for any folders. Others stay as they are.
std::string absolute_glob(const std::string& glob, const std::string& directory);

/// "/a/b/../c//./d" → "/a/c/d", in place.
void normalize_path(char* path);

/// Whether the glob means the file of this absolute path: by its last part, or, if the glob has a
/// '/', by all of it. Allocates nothing for paths below 1 KiB; longer ones it does not know.
bool glob_names(const char* glob, const char* path);

/// By the ending, or by one of the user's globs.
bool is_model_name(const char* path, const std::vector<std::string>& globs);

/// An existing file that is one by a name: the path's, or that of the file behind a link.
bool is_named_model(const std::string& path, const std::vector<std::string>& globs);

/// By the first bytes, which tell parse_file() the format, too (known_formats.h). Where these do
/// not suffice, the header must be one that can be parsed.
bool looks_like_model(int fd);

/// By a name or by its first bytes.
bool is_model_file(const std::string& path, const std::vector<std::string>& globs);

}  // namespace weightpager::model
