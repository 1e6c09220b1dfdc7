#include "pager/io/file_checksum.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "pager/base/log.h"
#include "pager/base/made_file.h"
#include "pager/base/units.h"
#include "pager/base/user_cache.h"
#include "pager/io/model_file.h"
#include "pager/io/open_reader.h"

namespace weightpager::io {
namespace {

constexpr uint32_t checksum_read_bytes = 2 * MiB;
constexpr uint32_t checksum_reads = 16;
constexpr uint64_t kept_text_bytes_max = 4096;

std::string kept_path(const std::string& directory, const FileIdentity& identity) {
  const std::array<uint64_t, 2> key = {identity.device, identity.inode};
  return fmt::format("{}/checksum-{:016x}", directory, XXH3_64bits(key.data(), sizeof key));
}

std::string kept_text(const FileChecksum& it) {
  const FileIdentity& file = it.identity;
  return fmt::format("weightpager checksum 1\n{} {} {} {} {}\n{:016x}{:016x}\n", file.device,
                     file.inode, file.size_bytes, file.modified_ns, file.changed_ns, it.high,
                     it.low);
}

/// The checksum that is kept of the file as it is now. What cannot be understood is made anew.
std::optional<FileChecksum> find_kept(const std::string& directory, const FileIdentity& identity) {
  if (directory.empty()) return std::nullopt;
  const auto text = read_own_file(kept_path(directory, identity), kept_text_bytes_max);
  if (!text) return std::nullopt;
  FileChecksum it{.identity = identity};
  // The checksum is the last line; all that stands before it must be as it would be written now.
  const size_t line = text->size() < 33 ? std::string::npos : text->size() - 33;
  if (line == std::string::npos ||
      std::sscanf(text->c_str() + line, "%16" SCNx64 "%16" SCNx64, &it.high, &it.low) != 2) {
    return std::nullopt;
  }
  return kept_text(it) == *text ? std::optional(it) : std::nullopt;
}

void keep(const std::string& directory, const FileChecksum& it) {
  if (directory.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  const std::string text = kept_text(it);
  auto file = MadeFile::create(kept_path(directory, it.identity), text.size());
  Status kept = file ? file->write(0, text) : forward_error(std::move(file));
  if (kept) kept = file->commit();
  if (!kept) notice(kept.error().message + "; the checksum is made anew at the next start");
}

/// Reads the file from its beginning to its end, with several reads in flight.
class WholeRead {
 public:
  WholeRead(const ModelFile& file, std::unique_ptr<Reader> reader)
      : file_(file),
        memory_(static_cast<std::byte*>(
            std::aligned_alloc(os_page_bytes, size_t{checksum_reads} * checksum_read_bytes))),
        reader_(std::move(reader)) {}

  /// 0 or the errno. Calls `act(bytes, length)` for one piece after the other.
  template <typename Act>
  int for_each_piece(Act act) {
    const uint64_t pieces = round_up(file_.size_bytes(), checksum_read_bytes) / checksum_read_bytes;
    for (uint64_t piece = 0; piece < pieces; ++piece) {
      for (; started_ < std::min(pieces, piece + checksum_reads); ++started_) start(started_);
      const size_t place = piece % checksum_reads;
      while (!has_come_[place]) take();
      has_come_[place] = false;
      const uint64_t left_bytes = file_.size_bytes() - piece * checksum_read_bytes;
      const uint64_t length_bytes = std::min<uint64_t>(left_bytes, checksum_read_bytes);
      if (come_[place].error_number != 0) return come_[place].error_number;
      if (come_[place].length_bytes < length_bytes) return EIO;
      act(bytes_at(place), length_bytes);
    }
    return 0;
  }

 private:
  std::byte* bytes_at(size_t place) const { return memory_.get() + place * checksum_read_bytes; }

  void start(uint64_t piece) {
    reader_->start({.tag = piece % checksum_reads,
                    .fd = file_.fd(),
                    .offset_bytes = piece * checksum_read_bytes,
                    .length_bytes = checksum_read_bytes,
                    .buffer = bytes_at(piece % checksum_reads)});
  }

  void take() {
    for (const Completion& completion : reader_->wait(-1).completions) {
      come_[completion.tag] = completion;
      has_come_[completion.tag] = true;
    }
  }

  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  const ModelFile& file_;
  std::unique_ptr<std::byte, Free> memory_;
  std::unique_ptr<Reader> reader_;  // gone before the memory that it reads into
  uint64_t started_ = 0;
  std::array<Completion, checksum_reads> come_;
  std::array<bool, checksum_reads> has_come_{};
};

// Waits for a few seconds, which a file needs that was written just now and has its times in whole
// seconds.
std::optional<FileIdentity> identity_once_settled(int fd) {
  constexpr int waits_max = 40;
  constexpr useconds_t wait_us = 100'000;
  auto identity = settled_identity_of(fd);
  for (int i = 0; i < waits_max && identity && !identity->is_settled; ++i) {
    usleep(wait_us);
    identity = identity_of(fd);
  }
  return identity;
}

Result<FileChecksum> read_checksum(const std::string& path, const ModelFile& file,
                                   const FileIdentity& identity,
                                   const std::function<void(uint64_t)>& on_read) {
  auto reader = open_best_reader({.reads_max = checksum_reads,
                                  .read_bytes_max = checksum_read_bytes,
                                  .device_read_bytes = checksum_read_bytes});
  if (!reader) return forward_error(std::move(reader));
  WholeRead whole(file, std::move(*reader));
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  XXH3_128bits_reset(state.get());
  const int error_number = whole.for_each_piece([&](const std::byte* bytes, uint64_t length_bytes) {
    XXH3_128bits_update(state.get(), bytes, length_bytes);
    on_read(length_bytes);
  });
  if (!file.is_direct()) posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  const auto now = identity_of(file.fd());
  if (now && !identity.holds_until(*now)) {
    return fail(path + ": was changed while its checksum was made, or just before",
                "wait until nobody writes to it, and start again", ESTALE);
  }
  if (error_number != 0 || !now) {
    return fail(fmt::format("{}: cannot be read as a whole: {} (errno {})", path,
                            std::strerror(error_number), error_number),
                "the disk or the file server fails: see `dmesg`", error_number);
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return FileChecksum{identity, hash.low64, hash.high64};
}

}  // namespace

Result<FileChecksum> checksum_of(const std::string& path, const std::string& cache_directory,
                                 const std::function<void(uint64_t)>& on_read) {
  const auto file = ModelFile::open(path);
  if (!file) return tl::make_unexpected(file.error());
  const auto identity = identity_once_settled(file->fd());
  if (!identity) return fail(path + ": the kernel does not say which file it is", "", EIO);
  if (const auto kept = find_kept(cache_directory, *identity)) return *kept;
  auto made = read_checksum(path, *file, *identity, on_read);
  if (made) keep(cache_directory, *made);
  return made;
}

}  // namespace weightpager::io
