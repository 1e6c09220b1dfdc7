#include "pager/telemetry/touch_record.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pager/base/owned_fd.h"
#include "pager/base/system_calls.h"

namespace weightpager::telemetry {
namespace {

constexpr uint32_t record_magic = 0x48435457;  // "WTCH"
constexpr uint32_t record_version = 1;
// A touch is served before many others come: engines have so many threads at most.
constexpr uint32_t unserved_max = 256;

tl::unexpected<Error> fail_record(const std::string& what, const std::string& path,
                                  int error_number) {
  return fail("cannot " + what + " " + path + ": " + std::strerror(error_number),
              "the directory may be full: see `df`", error_number);
}

}  // namespace

Result<TouchRecord*> TouchRecord::create(const std::string& directory) {
  const std::string path = directory + "/" + std::to_string(getpid()) + ".touches";
  unlink(path.c_str());  // of its former self, before exec
  const OwnedFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.is_open()) return fail_record("create", path, errno);
  // Not ftruncate: on a full disk the first touch of a hole would kill the engine.
  if (const int error_number = posix_fallocate(file.get(), 0, sizeof(TouchRecord))) {
    return fail_record("make room for", path, error_number);
  }
  void* const memory =
      mmap(nullptr, sizeof(TouchRecord), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return fail_record("map", path, errno);
  // The file's pages are zeros already; writing them all once more would take its time.
  auto* const record = reinterpret_cast<TouchRecord*>(memory);
  record->magic_ = record_magic;
  record->version_ = record_version;
  return record;
}

void UnmapTouchRecord::operator()(TouchRecord* record) const {
  kernel::munmap(record, sizeof(TouchRecord));
}

Result<PrivateTouchRecord> TouchRecord::create_private() {
  void* const memory = kernel::mmap(nullptr, sizeof(TouchRecord), PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(std::string("no memory for a record of touches: ") + std::strerror(errno), "",
                errno);
  }
  return PrivateTouchRecord(reinterpret_cast<TouchRecord*>(memory));
}

Result<const TouchRecord*> TouchRecord::open(const std::string& path) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return fail_record("open", path, errno);
  struct stat facts;
  if (fstat(file.get(), &facts) != 0) return fail_record("look at", path, errno);
  if (facts.st_size != sizeof(TouchRecord)) return fail_record("use", path, EINVAL);
  void* const memory = mmap(nullptr, sizeof(TouchRecord), PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return fail_record("map", path, errno);
  const auto* const record = reinterpret_cast<const TouchRecord*>(memory);
  if (record->magic_ == record_magic && record->version_ == record_version) return record;
  munmap(memory, sizeof(TouchRecord));
  return fail_record("use", path, EINVAL);
}

void TouchRecord::forget_touches() { touch_count_ = 0; }

void TouchRecord::add_file(const std::string& path, uint32_t first_chunk, uint32_t chunks) {
  RecordedFile& file = files_[std::min(file_count_.load(), files_max - 1)];
  if (file_count_ == files_max || path.size() >= sizeof file.path) {
    ++lost_;
    return;
  }
  file.first_chunk = first_chunk;
  file.chunks = chunks;
  std::memcpy(file.path, path.c_str(), path.size() + 1);
  ++file_count_;
}

void TouchRecord::add_touch(uint32_t chunk, uint32_t offset_bytes, uint64_t now_ns) {
  if (touch_count_ == touches_max) {
    ++lost_;
    return;
  }
  touches_[touch_count_] = {now_ns, 0, chunk, offset_bytes};
  ++touch_count_;
}

void TouchRecord::mark_served(uint32_t chunk, uint64_t now_ns) {
  const uint32_t count = touch_count_;
  for (uint32_t back = 1; back <= std::min(count, unserved_max); ++back) {
    RecordedTouch& touch = touches_[count - back];
    if (touch.chunk != chunk) continue;
    if (touch.served_ns == 0) touch.served_ns = now_ns;
    return;
  }
}

std::span<const RecordedTouch> TouchRecord::touches() const {
  return {touches_, std::min(touch_count_.load(), touches_max)};
}

std::span<const RecordedFile> TouchRecord::files() const {
  return {files_, std::min(file_count_.load(), files_max)};
}

}  // namespace weightpager::telemetry
