// Writing a made model's file: see make_file.h.
//
// Threads take piece after piece of the tensors, generate it in a buffer of their own and write it
// to its place; as a piece's bytes depend on nothing else, the order does not matter.
#include "pager/model/make_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <thread>

#include "pager/base/mutex.h"
#include "pager/base/units.h"
#include "pager/model/make_weights.h"

namespace weightpager::model {
namespace {

constexpr uint64_t piece_bytes_max = 8 * MiB;

tl::unexpected<Error> cannot_write(const std::string& path, uint64_t size_bytes, int error_number) {
  if (error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG)
    return fail(fmt::format("{}: no room for the file's {} bytes ({}): {}", path, size_bytes,
                            format_size(size_bytes), std::strerror(error_number)),
                "free some space, write to another disk, or make a smaller model", error_number);
  return fail(fmt::format("{}: cannot write the file: {}", path, std::strerror(error_number)),
              error_number == ENOENT ? "make its directory first" : "", error_number);
}

/// 0, or the errno. Filesystems that cannot reserve space get a file of the right length.
int reserve(int fd, uint64_t size_bytes) {
  const auto size = static_cast<off_t>(size_bytes);
  if (fallocate(fd, 0, 0, size) == 0) return 0;
  if (errno != EOPNOTSUPP) return errno;
  return ftruncate(fd, size) == 0 ? 0 : errno;
}

}  // namespace

Result<MadeFile> MadeFile::create(const std::string& path, uint64_t size_bytes) {
  MadeFile file;
  file.path_ = path;
  file.size_bytes_ = size_bytes;
  file.fd_ = OwnedFd(
      ::open(file.temporary_path().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.fd_.is_open()) return cannot_write(path, size_bytes, errno);
  if (const int error_number = reserve(file.fd_.get(), size_bytes); error_number != 0)
    return cannot_write(path, size_bytes, error_number);
  return file;
}

MadeFile::~MadeFile() {
  if (fd_.is_open()) std::remove(temporary_path().c_str());
}

Status MadeFile::write(uint64_t offset_bytes, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset_bytes));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return cannot_write(path_, size_bytes_, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
    offset_bytes += static_cast<uint64_t>(written);
  }
  return {};
}

Status MadeFile::commit() {
  if (fdatasync(fd_.get()) != 0 || std::rename(temporary_path().c_str(), path_.c_str()) != 0)
    return cannot_write(path_, size_bytes_, errno);
  fd_ = OwnedFd();
  return {};
}

uint64_t PlacedTensor::size_bytes() const {
  return plan.elements() / type->block_elements * type->block_bytes;
}

namespace {

struct Piece {
  const PlacedTensor* tensor;
  /// In the tensor; a multiple of a word and of a block.
  uint64_t offset_bytes;
  uint64_t size_bytes;
};

std::vector<Piece> cut_into_pieces(const std::vector<PlacedTensor>& tensors) {
  std::vector<Piece> pieces;
  for (const PlacedTensor& tensor : tensors) {
    const uint64_t unit = tensor.type->block_bytes * sizeof(uint64_t);
    const uint64_t step = round_down(piece_bytes_max, unit);
    for (uint64_t offset = 0; offset < tensor.size_bytes(); offset += step)
      pieces.push_back({&tensor, offset, std::min(step, tensor.size_bytes() - offset)});
  }
  return pieces;
}

class WeightWriter {
 public:
  WeightWriter(MadeFile& file, std::vector<Piece> pieces, uint64_t seed, ProgressCounter& progress)
      : file_(file), pieces_(std::move(pieces)), seed_(seed), progress_(progress) {}

  /// What every thread does: takes pieces until none is left, or one has failed.
  void run() {
    std::vector<uint64_t> buffer(piece_bytes_max / sizeof(uint64_t));
    for (size_t i = next_++; i < pieces_.size(); i = next_++) {
      Status status = write_piece(pieces_[i], buffer);
      const MutexLock lock(mutex_);
      if (!status && !failure_) failure_ = std::move(status).error();
      if (failure_) return;
      progress_.add(pieces_[i].size_bytes);
    }
  }

  Status result() {
    const MutexLock lock(mutex_);
    if (failure_) return tl::make_unexpected(*failure_);
    return {};
  }

 private:
  Status write_piece(const Piece& piece, std::span<uint64_t> buffer) {
    const PlacedTensor& tensor = *piece.tensor;
    const auto words =
        buffer.first(round_up(piece.size_bytes, sizeof(uint64_t)) / sizeof(uint64_t));
    fill_weights(*tensor.type, tensor.plan.kind, tensor_seed(seed_, tensor.plan.gguf_name),
                 piece.offset_bytes / sizeof(uint64_t), words);
    return file_.write(tensor.offset_bytes + piece.offset_bytes,
                       {reinterpret_cast<const char*>(words.data()), piece.size_bytes});
  }

  MadeFile& file_;
  const std::vector<Piece> pieces_;
  const uint64_t seed_;
  ProgressCounter& progress_;
  std::atomic<size_t> next_ = 0;
  Mutex mutex_;
  std::optional<Error> failure_ WP_GUARDED_BY(mutex_);
};

}  // namespace

Status write_weights(MadeFile& file, const std::vector<PlacedTensor>& tensors, uint64_t seed,
                     unsigned threads, ProgressCounter& progress) {
  WeightWriter writer(file, cut_into_pieces(tensors), seed, progress);
  {
    std::vector<std::jthread> helpers;
    for (unsigned i = 1; i < threads; ++i) helpers.emplace_back([&] { writer.run(); });
    writer.run();
  }
  return writer.result();
}

}  // namespace weightpager::model
