// The file that a fuzz target writes its input to, and what must hold of a model that came out of
// it.
//
// Parsers read files, not memory, so every input becomes one: the same file in a directory in
// memory, rewritten. Headers describe far more data than a fuzzer's inputs have; `pad` appends a
// hole that stands for it, so that the checks behind "is the data there" are reached, too.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "pager/base/assert.h"
#include "pager/model/model.h"

namespace weightpager::fuzz {

/// One for the whole process, removed at its end.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = "/dev/shm/weightpager-fuzz-XXXXXX";
    WP_ASSERT(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

class FuzzedFile {
 public:
  FuzzedFile(const ScratchDirectory& directory, const std::string& name)
      : path_(directory.path(name)),
        fd_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR)) {
    WP_ASSERT(fd_ >= 0);
  }
  FuzzedFile(const FuzzedFile&) = delete;
  FuzzedFile& operator=(const FuzzedFile&) = delete;
  ~FuzzedFile() { ::close(fd_); }

  const std::string& path() const { return path_; }

  void write(std::span<const uint8_t> bytes) {
    WP_ASSERT(ftruncate(fd_, 0) == 0);
    const auto length = static_cast<ssize_t>(bytes.size());
    WP_ASSERT(pwrite(fd_, bytes.data(), bytes.size(), 0) == length);
  }

  /// A hole up to `size_bytes`.
  void pad(uint64_t size_bytes) { WP_ASSERT(ftruncate(fd_, static_cast<off_t>(size_bytes)) == 0); }

 private:
  std::string path_;
  int fd_;
};

/// Every tensor lies in its file, every layer has tensors that there are.
inline void check_model(const model::Model& model) {
  for (const model::Tensor& tensor : model.tensors) {
    WP_ASSERT(tensor.file < model.files.size());
    const uint64_t file_bytes = model.files[tensor.file].size_bytes;
    WP_ASSERT(tensor.offset_bytes <= file_bytes);
    WP_ASSERT(tensor.size_bytes <= file_bytes - tensor.offset_bytes);
  }
  for (const model::Layer& layer : model.layers)
    for (const uint32_t tensor : layer.tensors) WP_ASSERT(tensor < model.tensors.size());
}

/// A model that is sound, or an error that names its file.
inline void check_opened(const Result<model::Model>& model, const std::string& directory) {
  if (model) return check_model(*model);
  WP_ASSERT(model.error().message.starts_with(directory));
}

}  // namespace weightpager::fuzz
