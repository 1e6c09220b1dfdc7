#include "pager/profiles/access_profile_record.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "pager/telemetry/shared_file.h"

namespace weightpager::profiles {
namespace {

constexpr uint64_t record_magic = 0x31'4e'53'4c'50'57;  // "WPLSN1"
constexpr size_t word_bytes = sizeof(uint64_t);

}  // namespace

Result<AccessProfileRecord*> AccessProfileRecord::create(const std::string& directory) {
  const std::string path = directory + "/" + std::to_string(getpid()) + ".access-profile";
  auto memory = telemetry::create_shared_file(path, sizeof(AccessProfileRecord));
  if (!memory) return forward_error(std::move(memory));
  auto* const record = static_cast<AccessProfileRecord*>(*memory);
  record->magic_ = record_magic;
  return record;
}

Result<const AccessProfileRecord*> AccessProfileRecord::open(const std::string& path) {
  auto memory = telemetry::open_shared_file(path, sizeof(AccessProfileRecord));
  if (!memory) return forward_error(std::move(memory));
  const auto* const record = static_cast<const AccessProfileRecord*>(*memory);
  if (record->magic_ == record_magic) return record;
  return fail(path + ": is no access profile of this version");
}

bool AccessProfileRecord::put(std::string_view text) {
  const bool has_room = text.size() <= text_bytes_max;
  if (!has_room) text = {};
  edition_.fetch_add(1);
  text_bytes_.store(text.size(), std::memory_order_relaxed);
  for (size_t at = 0; at < text.size(); at += word_bytes) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min(word_bytes, text.size() - at));
    words_[at / word_bytes].store(word, std::memory_order_relaxed);
  }
  edition_.fetch_add(1);
  return has_room;
}

std::optional<std::string> AccessProfileRecord::text() const {
  const uint64_t edition = edition_.load();
  const uint64_t size_bytes = text_bytes_.load(std::memory_order_relaxed);
  if (edition % 2 != 0 || size_bytes == 0 || size_bytes > text_bytes_max) return std::nullopt;
  std::string text(size_bytes, '\0');
  for (size_t at = 0; at < text.size(); at += word_bytes) {
    const uint64_t word = words_[at / word_bytes].load(std::memory_order_relaxed);
    std::memcpy(text.data() + at, &word, std::min(word_bytes, text.size() - at));
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  if (edition_.load(std::memory_order_relaxed) != edition) return std::nullopt;
  return text;
}

}  // namespace weightpager::profiles
