#include "pager/telemetry/touch_record.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pager/base/system_calls.h"
#include "pager/telemetry/shared_file.h"

namespace weightpager::telemetry {
namespace {

constexpr uint32_t record_magic = 0x48435457;  // "WTCH"
constexpr uint32_t record_version = 1;
// A touch is served before many others come: engines have so many threads at most.
constexpr uint32_t unserved_max = 256;

}  // namespace

Result<TouchRecord*> TouchRecord::create(const std::string& directory) {
  const std::string path = directory + "/" + std::to_string(getpid()) + ".touches";
  auto memory = create_shared_file(path, sizeof(TouchRecord));
  if (!memory) return forward_error(std::move(memory));
  // The file's pages are zeros already; writing them all once more would take its time.
  auto* const record = static_cast<TouchRecord*>(*memory);
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
  auto memory = open_shared_file(path, sizeof(TouchRecord));
  if (!memory) return forward_error(std::move(memory));
  const auto* const record = static_cast<const TouchRecord*>(*memory);
  if (record->magic_ == record_magic && record->version_ == record_version) return record;
  return fail(path + ": is no record of touches of this version");
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
