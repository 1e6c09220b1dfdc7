#include "pager/preload/session.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pager/attach/attached_pager.h"
#include "pager/base/log.h"
#include "pager/base/memory_limit.h"
#include "pager/base/mutex.h"
#include "pager/base/own_limits.h"
#include "pager/base/plain_memory.h"
#include "pager/base/system_calls.h"
#include "pager/base/units.h"
#include "pager/base/whole_file.h"
#include "pager/control/guest_answers.h"
#include "pager/control/pager_answers.h"
#include "pager/io/mirrors.h"
#include "pager/model/recognise.h"
#include "pager/pager.h"
#include "pager/policy/chunk_size.h"
#include "pager/preload/control.h"
#include "pager/preload/opened_files.h"
#include "pager/preload/session_state.h"
#include "pager/preload/spilled_blocks.h"
#include "pager/preload/spilled_memory.h"
#include "pager/preload/unseen_memory.h"
#include "pager/preload/witness.h"
#include "pager/telemetry/telemetry.h"

namespace weightpager::preload {

Session* session = nullptr;
thread_local bool is_inside __attribute__((tls_model("initial-exec"))) = false;

std::string environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

std::string path_of(int fd) {
  char text[PATH_MAX];
  const std::string link = "/proc/thread-self/fd/" + std::to_string(fd);
  const ssize_t length = readlink(link.c_str(), text, sizeof text);
  return length > 0 ? std::string(text, static_cast<size_t>(length)) : std::string();
}

namespace {

// Smaller mappings are configuration or vocabularies, or not worth a fault.
constexpr uint64_t mapping_bytes_min = 2 * MiB;
constexpr uint64_t copies_text_bytes_max = 16 * MiB;

// The ranges of regions. Every memory call of the engine looks at them without a lock. They are
// written under the session's mutex. An entry is in change while the engine maps or unmaps its
// range.
struct PublishedRange {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
};
PublishedRange published[regions_max];
std::atomic<size_t> published_count{0};
std::atomic<bool> has_published{false};

std::atomic<const char*> profile_text{nullptr};
std::atomic<bool> is_user_mode_only{false};

SessionConfiguration read_configuration() {
  SessionConfiguration it;
  it.window_bytes = std::strtoull(environment("WEIGHTPAGER_WINDOW", "0").c_str(), nullptr, 10);
  const std::string match = environment("WEIGHTPAGER_MATCH");
  for (size_t begin = 0; begin < match.size();) {
    const size_t end = std::min(match.find(':', begin), match.size());
    if (end > begin) it.globs.push_back(match.substr(begin, end - begin));
    begin = end + 1;
  }
  it.files = model::parse_file_ids(environment("WEIGHTPAGER_FILES"));
  it.mapper = environment("WEIGHTPAGER_MAPPER", "auto");
  it.policy = environment("WEIGHTPAGER_POLICY", policy::adaptive_policy.data());
  it.server_socket = environment("WEIGHTPAGER_ATTACH");
  it.run_directory = environment("WEIGHTPAGER_RUN_DIR");
  it.access_profile_directory = environment("WEIGHTPAGER_ACCESS_PROFILES");
  it.records_touches = environment("WEIGHTPAGER_RECORD", "0") == "1";
  it.wants_profiles = environment("WEIGHTPAGER_PROFILE", "1") != "0";
  it.spill_folder = environment("WEIGHTPAGER_SPILL");
  it.kept_folder = environment("WEIGHTPAGER_KEEP_COPIES");
  return it;
}

// Copies that the starter of the engine has checked.
void read_copies(SessionConfiguration& it) {
  const std::string path = environment("WEIGHTPAGER_MIRRORS");
  if (path.empty()) return;
  const auto text = read_whole_file(path, copies_text_bytes_max, "a list of copies");
  auto copies = text ? io::parse_copies(*text, path) : tl::make_unexpected(text.error());
  it.has_mirrors = copies.has_value();
  if (copies) it.copies = std::move(*copies);
  if (!copies) notice(copies.error().message + ": models are read from their own drives only");
}

/// The name of a file; if the file has no name any more, the last one.
std::string name_of(const std::string& path) {
  constexpr std::string_view removed = " (deleted)";
  return path.ends_with(removed) ? path.substr(0, path.size() - removed.size()) : path;
}

bool is_model(int fd, const std::string& path) {
  struct stat facts;
  if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
  const SessionConfiguration& known = session->configuration;
  const model::FileId file{facts.st_dev, facts.st_ino};
  const bool is_listed =
      std::find(known.files.begin(), known.files.end(), file) != known.files.end();
  return is_listed || was_noted(file) || model::is_model_name(name_of(path).c_str(), known.globs) ||
         model::looks_like_model(fd);
}

void show_profile() {
  const char* text = profile_text.load();
  telemetry::Telemetry* const telemetry = session->telemetry;
  if (telemetry == nullptr || text == nullptr) return;
  std::strncpy(telemetry->profile, text, sizeof telemetry->profile - 1);
}

// A window can later be made larger, as far as there is memory. That takes a reservation of
// addresses. If addresses are limited, the reservation would be missing elsewhere.
uint64_t window_bytes_max_of(uint64_t window_bytes) {
  return is_limited(RLIMIT_AS) ? window_bytes : std::max(window_bytes, memory_limit().bytes);
}

Result<std::unique_ptr<PagingService>> open_service(const PagerPurpose& purpose)
    WP_REQUIRES(session->mutex) {
  const SessionConfiguration& configuration = session->configuration;
  telemetry::Telemetry* const telemetry = session->telemetry;
  if (!configuration.server_socket.empty()) {
    auto attached = attach::AttachedPager::start(configuration.server_socket, telemetry);
    if (!attached) return forward_error(std::move(attached));
    open_control_socket([answers = std::make_shared<control::GuestAnswers>(**attached, *telemetry)](
                            std::string_view request) { return answers->answer(request); });
    return attached;
  }
  PagerOptions options;
  options.window_bytes = configuration.window_bytes;
  options.window_bytes_max = window_bytes_max_of(configuration.window_bytes);
  options.mapper = configuration.mapper;
  options.policy = configuration.policy;
  options.expects_writable = purpose.expects_writable;
  options.chunk_bytes = purpose.chunk_bytes;
  options.device = io::device_limits(purpose.fd, configuration.copies);
  options.spill_folder = configuration.spill_folder;
  options.kept_folder = configuration.kept_folder;
  options.follows_memory_limit = true;
  options.telemetry = telemetry;
  if (configuration.records_touches) {
    auto record = telemetry::TouchRecord::create(configuration.run_directory);
    if (!record) return forward_error(std::move(record));
    options.touch_record = *record;
  }
  if (!configuration.access_profile_directory.empty()) {
    options.access_profile_directory = configuration.access_profile_directory;
    auto record = profiles::AccessProfileRecord::create(configuration.run_directory);
    if (!record) notice(record.error().message + ": what is learned will not be kept");
    if (record) options.access_profile_record = *record;
  }
  auto pager = Pager::start(options);
  if (!pager) return forward_error(std::move(pager));
  open_control_socket([answers = std::make_shared<control::PagerAnswers>(**pager, *telemetry)](
                          std::string_view request) { return answers->answer(request); });
  session->own_pager = pager->get();
  return pager;
}

// The name may belong to another file by now.
bool is_named(const std::string& path, const struct stat& facts) {
  struct stat named;
  return stat(path.c_str(), &named) == 0 && named.st_dev == facts.st_dev &&
         named.st_ino == facts.st_ino;
}

// The layers of the file. A file that weightpager cannot read, but the engine perhaps can, is one
// layer.
model::Model layers_of(const std::string& path, uint64_t size_bytes) {
  auto model = model::open_model_file(path);
  if (model) return std::move(*model);
  notice(model.error().message + ": paged in file order");
  return model::in_file_order(path, size_bytes);
}

// Writable regions are views, which small pages would make slow.
uint64_t chunk_bytes_for(const model::Model& model, bool expects_writable) {
  const SessionConfiguration& configuration = session->configuration;
  const uint64_t chunk_bytes = policy::chunk_bytes_for(model);
  if (configuration.spill_folder.empty() || expects_writable) return chunk_bytes;
  return std::min(chunk_bytes,
                  policy::chunk_bytes_beside_copies(model, configuration.window_bytes));
}

// The copies of the file. Files of a model that was not among the engine's arguments have none, and
// nobody knows of them before they are mapped: that is told once.
std::vector<io::CheckedCopy> copies_of_file(const std::string& name,
                                            const std::optional<io::FileIdentity>& file)
    WP_REQUIRES(session->mutex) {
  const SessionConfiguration& known = session->configuration;
  auto copies = file ? io::copies_of(known.copies, *file) : std::vector<io::CheckedCopy>{};
  if (!known.has_mirrors || !copies.empty() || std::exchange(session->has_told_of_no_copy, true))
    return copies;
  notice(name +
         ": --mirror has no copy that was checked at the start: it is read from its own drive "
         "only, and so are others like it. Name the model among the engine's arguments");
  return copies;
}

// An engine that maps its model reads none. What it has beside the model stays its own, unless
// somebody asked for more: the window is the model's alone.
void give_up_spilling_for_readers() WP_REQUIRES(session->mutex) {
  if (has_any_lazily_read()) return;
  const bool is_without = end_spilling_for_readers();
  if (is_without && !session->pager) session->configuration.spill_folder.clear();
}

// The user asked for a window. If there can be none, the engine gets no model rather than the whole
// model in memory.
void* refuse_mapping() {
  errno = ENOMEM;
  return MAP_FAILED;
}

// Calls `act(address, length_bytes)` for each part of a range that is outside of regions; the
// kernel handles these parts.
template <typename Act>
void for_each_part_outside(uintptr_t begin, uintptr_t end, Act act) WP_REQUIRES(session->mutex) {
  std::sort(session->mapped.begin(), session->mapped.end(),
            [](const Mapped& a, const Mapped& b) { return a.range.begin < b.range.begin; });
  const auto act_on = [&](uintptr_t from, uintptr_t to) {
    if (from < to) act(reinterpret_cast<void*>(from), to - from);
  };
  for (const Mapped& mapped : session->mapped) {
    if (mapped.range.end <= begin || mapped.range.begin >= end) continue;
    act_on(begin, mapped.range.begin);
    begin = mapped.range.end;
  }
  act_on(begin, end);
}

// Takes a range out of the spans. Returns whether the spans had a part of it.
bool erase_span(std::vector<Span>& spans, uintptr_t begin, uintptr_t end) {
  std::vector<Span> left;
  bool is_there = false;
  for (const Span& span : spans) {
    is_there = is_there || (span.begin < end && begin < span.end);
    const Span parts[] = {{span.begin, std::min(span.end, begin)},
                          {std::max(span.begin, end), span.end}};
    std::copy_if(std::begin(parts), std::end(parts), std::back_inserter(left),
                 [](const Span& part) { return part.begin < part.end; });
  }
  spans = std::move(left);
  return is_there;
}

// ---- Child processes ----
//
// Regions and slots do not exist in a child (MADV_DONTFORK). Instead the child sees the plain file
// at the same address. It inherits the pages that its parent wrote. Between fork and exec only
// system calls are safe, so nothing in the child allocates.

void before_fork() WP_LOCKS(session->mutex) {
  note_forking();
  session->mutex.lock();
  before_fork_of_control_socket();
  Inside inside;
  if (session->pager) session->written = session->pager->written_spans();
  before_fork_of_arenas();
}

void after_fork_in_parent() WP_UNLOCKS(session->mutex) {
  Inside inside;
  after_fork_of_arenas_in_parent();
  session->mutex.unlock();
}

// Calls `act(begin, end)` for each part that the parent did not write.
template <typename Act>
void for_each_unwritten_part(const Mapped& mapped, Act act) WP_REQUIRES(session->mutex) {
  uintptr_t at = mapped.range.begin;
  for (const Span& written : session->written) {
    if (written.end <= at || written.begin >= mapped.range.end) continue;
    if (at < written.begin) act(at, written.begin);
    at = written.end;
  }
  if (at < mapped.range.end) act(at, mapped.range.end);
}

void move_plain_file_in_child(const Mapped& mapped, uintptr_t begin, uintptr_t end) {
  const uintptr_t plain = mapped.plain + (begin - mapped.range.begin);
  auto* const target = reinterpret_cast<void*>(begin);
  kernel::mremap(reinterpret_cast<void*>(plain), end - begin, end - begin,
                 MREMAP_MAYMOVE | MREMAP_FIXED, target);
  kernel::mprotect(target, end - begin, mapped.protection);
}

// Opens the file by the parent's descriptor, because the name may be gone or belong to another file
// by now; otherwise by the name, if that still means the file.
int open_in_child(const Mapped& mapped) {
  for (const std::string* path : {&mapped.link, &mapped.path}) {
    const int fd = ::open(path->c_str(), O_RDONLY | O_CLOEXEC);
    struct stat facts;
    const bool is_same = fd >= 0 && fstat(fd, &facts) == 0 && facts.st_dev == mapped.device &&
                         facts.st_ino == mapped.inode;
    if (is_same) return fd;
    if (fd >= 0) ::close(fd);
  }
  return -1;
}

void map_file_in_child(const Mapped& mapped, int fd, uintptr_t begin, uintptr_t end) {
  const uint64_t offset_bytes = mapped.offset_bytes + (begin - mapped.range.begin);
  kernel::mmap(reinterpret_cast<void*>(begin), end - begin, mapped.protection,
               mapped.flags | MAP_FIXED, fd, static_cast<off_t>(offset_bytes));
}

void note_ranges_in_child() WP_REQUIRES(session->mutex) {
  Range ranges[regions_max];
  size_t count = 0;
  for (const Mapped& mapped : session->mapped) ranges[count++] = mapped.range;
  note_forked(ranges, count);
}

void after_fork_in_child() WP_UNLOCKS(session->mutex) {
  note_ranges_in_child();
  after_fork_of_arenas_in_child();
  for (const Mapped& mapped : session->mapped) {
    if (mapped.plain != 0) {
      for_each_unwritten_part(mapped, [&](uintptr_t begin, uintptr_t end) {
        move_plain_file_in_child(mapped, begin, end);
      });
      continue;
    }
    const int fd = open_in_child(mapped);
    // Without the file the range stays unmapped: a touch is SIGSEGV, neither zeros nor another
    // file.
    if (fd < 0) continue;
    for_each_unwritten_part(
        mapped, [&](uintptr_t begin, uintptr_t end) { map_file_in_child(mapped, fd, begin, end); });
    ::close(fd);
  }
  for (const Span& hidden : session->hidden) {
    kernel::mprotect(reinterpret_cast<void*>(hidden.begin), hidden.end - hidden.begin, PROT_NONE);
  }
  // The pager's thread exists in the parent only, so the parent's object must not be destroyed
  // here. If the child maps a model itself, it gets a pager of its own.
  (void)session->pager.release();
  session->own_pager = nullptr;
  forget_control_socket();
  session->telemetry = nullptr;
  session->mapped.clear();
  session->hidden.clear();
  published_count.store(0);
  session->mutex.unlock();
}

// Maps the file for child processes: when the engine forks, it may have given up its rights or have
// no /proc. 0 if the file cannot be mapped.
uintptr_t map_plain(size_t length, int flags, int fd, off_t offset) {
  if (is_limited(RLIMIT_AS)) return 0;
  void* const plain = kernel::mmap(
      nullptr, length, PROT_NONE, (flags & (MAP_SHARED | MAP_PRIVATE)) | MAP_NORESERVE, fd, offset);
  return plain == MAP_FAILED ? 0 : reinterpret_cast<uintptr_t>(plain);
}

__attribute__((constructor)) void begin_session() {
  const bool is_attached = std::getenv("WEIGHTPAGER_ATTACH") != nullptr;
  if (std::getenv("WEIGHTPAGER_WINDOW") == nullptr && !is_attached) return;
  auto* it = new Session;
  it->configuration = read_configuration();
  if (!is_attached && it->configuration.window_bytes < window_bytes_min) {
    report_error("WEIGHTPAGER_WINDOW is below " + format_size(window_bytes_min) +
                 "; to map a model fails with ENOMEM");
    const MutexLock lock(it->mutex);
    it->has_failed = true;
  }
  set_quiet(environment("WEIGHTPAGER_QUIET") == "1");
  read_copies(it->configuration);
  session = it;
  note_loaded(it->configuration.run_directory);
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  // Behind that: what begins spilling locks is locked first at a fork.
  begin_spilling();
  // Builds that link llama.cpp statically cannot be told through a symbol (ggml_profile.cc).
  if (it->configuration.wants_profiles) setenv("LLAMA_ARG_REPACK", "0", 0);
}

// The pager goes on serving: engine threads and other destructors may still touch weights.
__attribute__((destructor)) void end_session() {
  if (session == nullptr) return;
  note_end();
  note_unseen_memory();
  telemetry::Telemetry* const telemetry = session->telemetry;
  if (telemetry == nullptr) return;
  remove_control_socket();
  telemetry->ended_ns.store(telemetry::monotonic_ns());
}

}  // namespace

Result<telemetry::Telemetry*> telemetry_of_process() {
  if (session->telemetry != nullptr) return session->telemetry.load();
  auto telemetry = telemetry::create(session->configuration.run_directory);
  if (!telemetry) {
    notice(telemetry.error().message + ": there will be no summary");
    telemetry = telemetry::create("");
  }
  if (telemetry) session->telemetry = *telemetry;
  return telemetry;
}

bool start_pager(const PagerPurpose& purpose) {
  if (session->pager) return true;
  // What was not asked for, and cannot be had, is as if nobody had tried.
  if (purpose.is_asked_for) note_paging();
  auto telemetry = telemetry_of_process();
  auto pager = telemetry ? open_service(purpose) : forward_error(std::move(telemetry));
  if (!pager && !purpose.is_asked_for) {
    notice("memory of the engine's own is not served: " + pager.error().message);
    return false;
  }
  if (!pager) {
    session->has_failed = true;
    report_error(pager.error().message + "; to map a model fails with ENOMEM");
    if (!pager.error().hint.empty()) notice("hint: " + pager.error().hint);
    return false;
  }
  if (!purpose.is_asked_for) note_paging();
  session->pager = std::move(*pager);
  is_user_mode_only.store(session->pager->is_user_mode_only());
  show_profile();
  return true;
}

void publish_ranges() {
  std::vector<Range> ranges = session->arenas;
  for (const Mapped& mapped : session->mapped) ranges.push_back(mapped.range);
  for (size_t i = 0; i < ranges.size(); ++i) {
    published[i].end.store(0);
    published[i].begin.store(ranges[i].begin);
    published[i].end.store(ranges[i].end);
  }
  published_count.store(ranges.size());
  has_published.store(true);
}

bool is_active() { return session != nullptr && !is_inside; }

bool wants_profiles() { return is_active() && session->configuration.wants_profiles; }

void note_profile(const char* text) {
  const char* none = nullptr;
  if (!profile_text.compare_exchange_strong(none, text)) return;
  const MutexLock lock(session->mutex);
  show_profile();
}

void* map_model(size_t length, int protection, int flags, int fd, off_t offset) {
  if (length < mapping_bytes_min || (protection & PROT_EXEC) != 0) return nullptr;
  Inside inside;
  const std::string path = path_of(fd);
  if (!is_model(fd, path)) return nullptr;
  if ((flags & MAP_FIXED) != 0) {
    notice(path + ": mapped at a fixed address; not paged");
    return nullptr;
  }
  const bool is_writable = (protection & PROT_WRITE) != 0;
  if (is_writable && (flags & MAP_PRIVATE) == 0) {
    notice(path + ": mapped to be changed (shared and writable); not paged");
    return nullptr;
  }
  struct stat facts;
  if (fstat(fd, &facts) != 0) return nullptr;

  const MutexLock lock(session->mutex);
  // One place stays free, because a partial munmap can turn one range into two.
  if (session->mapped.size() + session->arenas.size() + 1 >= regions_max) {
    notice(path + ": more than " + std::to_string(regions_max) + " mappings of models; not paged");
    return nullptr;
  }
  if (session->has_failed) return refuse_mapping();
  give_up_spilling_for_readers();
  const model::Model model = layers_of(is_named(path, facts) ? path : link_of_descriptor(fd),
                                       static_cast<uint64_t>(facts.st_size));
  // PyTorch maps a safetensors file twice: read-only for the header, then writable for the weights.
  const bool expects_writable = is_writable || model.format == model::Format::safetensors;
  if (!start_pager({fd, chunk_bytes_for(model, expects_writable), expects_writable}))
    return refuse_mapping();
  // The descriptor belongs to this thread; the pager's thread has a table of its own. The pager's
  // thread opens the file through this descriptor, so it is the same file even if the name means
  // another one by now.
  RegionRequest request;
  request.path = link_of_descriptor(fd);
  request.file = io::settled_identity_of(fd);
  request.name = path;
  request.offset_bytes = static_cast<uint64_t>(offset);
  request.length_bytes = length;
  request.is_writable = is_writable;
  request.model = &model;
  request.copies = copies_of_file(path, request.file);
  auto address = session->pager->add_region(request);
  if (!address) {
    report_error(address.error().message + "; to map it fails with ENOMEM");
    if (!address.error().hint.empty()) notice("hint: " + address.error().hint);
    return refuse_mapping();
  }
  const auto begin = reinterpret_cast<uintptr_t>(*address);
  session->mapped.push_back({{begin, begin + round_up(length, os_page_bytes)},
                             map_plain(length, flags, fd, offset),
                             session->pager->file_link(*address),
                             path,
                             facts.st_dev,
                             facts.st_ino,
                             request.offset_bytes,
                             protection,
                             flags & ~(MAP_POPULATE | MAP_LOCKED)});
  publish_ranges();
  // This does not read the whole model, but its beginning, while the engine still sets itself up.
  if ((flags & MAP_POPULATE) != 0) session->pager->advise(*address, length, Advice::will_need);
  return *address;
}

bool kernel_cannot_wait() { return is_user_mode_only.load(std::memory_order_relaxed); }

bool is_model_name(const char* path) {
  return model::is_model_name(path, session->configuration.globs);
}

bool has_served() { return has_published.load(std::memory_order_relaxed); }

void note_opened_by_name(int fd, int directory, const char* path) {
  remember_opened(fd, directory, path, session->configuration.globs);
}

bool is_model_file(int fd) {
  Inside inside;
  return is_model(fd, path_of(fd));
}

bool touches_region(const void* address, size_t length) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const size_t count = published_count.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i) {
    if (begin < published[i].end.load(std::memory_order_relaxed) &&
        published[i].begin.load(std::memory_order_relaxed) < begin + length) {
      return true;
    }
  }
  return false;
}

int unmap(void* address, size_t length) {
  Inside inside;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  // Blocks of malloc are not the engine's to unmap.
  if (begin % os_page_bytes != 0 || length == 0 || touches_arena(address, length)) {
    errno = EINVAL;
    return -1;
  }
  const uintptr_t end = begin + round_up(length, os_page_bytes);
  const MutexLock lock(session->mutex);
  session->pager->remove(static_cast<std::byte*>(address), end - begin);
  erase_span(session->hidden, begin, end);

  for_each_part_outside(begin, end, kernel::munmap);
  // The remaining parts of a region stay known.
  std::vector<Mapped> left;
  for (const Mapped& mapped : session->mapped) {
    if (mapped.range.end <= begin || mapped.range.begin >= end) {
      left.push_back(mapped);
      continue;
    }
    if (mapped.plain != 0) {
      const uintptr_t first = std::max(begin, mapped.range.begin);
      const uintptr_t last = std::min(end, mapped.range.end);
      kernel::munmap(reinterpret_cast<void*>(mapped.plain + (first - mapped.range.begin)),
                     last - first);
    }
    if (mapped.range.begin < begin) {
      left.push_back(mapped);
      left.back().range.end = begin;
    }
    if (mapped.range.end > end) {
      left.push_back(mapped);
      left.back().range.begin = end;
      left.back().offset_bytes += end - mapped.range.begin;
      if (mapped.plain != 0) left.back().plain += end - mapped.range.begin;
    }
  }
  session->mapped = std::move(left);
  publish_ranges();
  return 0;
}

int protect(void* address, size_t length, int protection) {
  Inside inside;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  if (begin % os_page_bytes != 0) {
    errno = EINVAL;
    return -1;
  }
  const uintptr_t end = begin + round_up(length, os_page_bytes);
  if (touches_arena(address, length)) return protect_arena(protection);
  const MutexLock lock(session->mutex);
  const auto is_within = [&](const Mapped& mapped) {
    return mapped.range.end > begin && mapped.range.begin < end;
  };
  for (const Mapped& mapped : session->mapped) {
    if (!is_within(mapped) || (protection & ~mapped.protection) == 0) continue;
    errno = EACCES;
    return -1;
  }
  // If the engine takes away some access, but not all, there is nothing to do: the engine will not
  // do what it has forbidden itself.
  const bool is_accessible = protection != PROT_NONE;
  const bool was_hidden = erase_span(session->hidden, begin, end);
  if (!is_accessible || was_hidden) {
    for (const Mapped& mapped : session->mapped) {
      if (!is_within(mapped)) continue;
      const Span part = {std::max(begin, mapped.range.begin), std::min(end, mapped.range.end)};
      session->pager->protect(reinterpret_cast<std::byte*>(part.begin), part.end - part.begin,
                              is_accessible);
      if (!is_accessible) session->hidden.push_back(part);
    }
  }
  int result = 0;
  for_each_part_outside(begin, end, [&](void* part, size_t part_bytes) {
    if (kernel::mprotect(part, part_bytes, protection) != 0) result = -1;
  });
  return result;
}

void will_need(void* address, size_t length) {
  Inside inside;
  const MutexLock lock(session->mutex);
  session->pager->advise(static_cast<std::byte*>(address), length, Advice::will_need);
}

void consumed(void* address, size_t length) {
  Inside inside;
  const MutexLock lock(session->mutex);
  session->pager->advise(static_cast<std::byte*>(address), length, Advice::consumed);
}

void discard(void* address, size_t length) {
  Inside inside;
  if (touches_arena(address, length)) {
    return clear_in_arena(static_cast<std::byte*>(address), length);
  }
  const MutexLock lock(session->mutex);
  session->pager->advise(static_cast<std::byte*>(address), length, Advice::discard);
  const auto begin = reinterpret_cast<uintptr_t>(address);
  for_each_part_outside(begin, begin + length, [](void* part, size_t part_bytes) {
    kernel::madvise(part, part_bytes, MADV_DONTNEED);
  });
}

void residency(void* address, size_t length, unsigned char* pages) {
  Inside inside;
  const MutexLock lock(session->mutex);
  // The pager's thread fills it, which must not touch memory that it serves.
  std::vector<unsigned char> plain(length / os_page_bytes);
  session->pager->residency(static_cast<std::byte*>(address), length, plain.data());
  std::copy(plain.begin(), plain.end(), pages);
}

}  // namespace weightpager::preload
