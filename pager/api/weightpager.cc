// The C API: the Pager class behind a handle. Nothing is decided here; it checks what a C caller
// can get wrong, keeps the list of regions, and turns errors into errno and a text.
#include "weightpager/weightpager.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pager/api/last_error.h"
#include "pager/base/mutex.h"
#include "pager/base/units.h"
#include "pager/base/user_cache.h"
#include "pager/control/hosted_socket.h"
#include "pager/control/pager_answers.h"
#include "pager/io/mirrors.h"
#include "pager/io/model_file.h"
#include "pager/model/model.h"
#include "pager/pager.h"
#include "pager/policy/chunk_size.h"
#include "pager/telemetry/telemetry.h"

using namespace weightpager;

struct weightpager_pager {
  // Nobody uses it any more.
  ~weightpager_pager();

  PagerOptions options;
  bool listens = false;
  std::vector<std::string> mirrors;
  Mutex mutex;
  // It starts with the first file, whose device and layers are known then.
  std::unique_ptr<Pager> pager WP_GUARDED_BY(mutex);
  std::map<const void*, uint64_t> length_by_address WP_GUARDED_BY(mutex);
  // In this order: who is asked goes last.
  std::unique_ptr<control::PagerAnswers> answers WP_GUARDED_BY(mutex);
  std::unique_ptr<control::HostedSocket> socket WP_GUARDED_BY(mutex);
};

using api::remember;

namespace {

// The socket has the process's number for its name: one pager can have it.
std::atomic<bool> one_listens{false};

void open_socket(weightpager_pager& it) WP_REQUIRES(it.mutex) {
  it.answers = std::make_unique<control::PagerAnswers>(*it.pager, *it.options.telemetry, "library");
  it.socket = control::HostedSocket::open(
      {.answer = [&answers = *it.answers](auto request) { return answers.answer(request); },
       .can_be_closed = true});
  // Who forks now would give the child the lock of a library that is being loaded.
  if (it.socket) it.socket->await_opened();
}

Result<Pager*> started(weightpager_pager& it, const model::Model& model,
                       const std::vector<io::CheckedCopy>& copies) WP_REQUIRES(it.mutex) {
  if (it.pager) return it.pager.get();
  const int fd = ::open(model.files[0].path.c_str(), O_RDONLY | O_CLOEXEC);
  it.options.device = io::device_limits(fd, copies);
  ::close(fd);
  it.options.chunk_bytes = policy::chunk_bytes_for(model);
  auto pager = Pager::start(it.options);
  if (!pager) return forward_error(std::move(pager));
  it.pager = std::move(*pager);
  if (it.listens) open_socket(it);
  return it.pager.get();
}

Result<std::vector<io::CheckedCopy>> checked_copies(const weightpager_pager& it, const char* path) {
  if (it.mirrors.empty()) return std::vector<io::CheckedCopy>{};
  return io::check_copies({path}, it.mirrors, user_cache_directory(), [](uint64_t, uint64_t) {});
}

Result<std::byte*> map(weightpager_pager& it, const char* path, uint64_t* length_bytes) {
  auto model = model::open_model_file(path);
  if (!model) return forward_error(std::move(model));
  auto copies = checked_copies(it, path);
  if (!copies) return forward_error(std::move(copies));
  const MutexLock lock(it.mutex);
  auto pager = started(it, *model, *copies);
  if (!pager) return forward_error(std::move(pager));
  RegionRequest request;
  request.path = request.name = path;
  request.file = io::settled_identity_of(request.path);
  request.length_bytes = model->files[0].size_bytes;
  request.model = &*model;
  if (request.file) request.copies = io::copies_of(*copies, *request.file);
  auto address = (*pager)->add_region(request);
  if (!address) return address;
  it.length_by_address[*address] = request.length_bytes;
  *length_bytes = request.length_bytes;
  return address;
}

void advise(weightpager_pager* pager, const void* address, uint64_t length_bytes, Advice advice) {
  const MutexLock lock(pager->mutex);
  if (!pager->pager) return;
  auto* begin = const_cast<std::byte*>(static_cast<const std::byte*>(address));
  pager->pager->advise(begin, length_bytes, advice);
}

}  // namespace

const char* weightpager_version(void) { return WP_VERSION; }

int weightpager_open(const weightpager_options* options, weightpager_pager** pager) {
  // Programs that were built before a field was there leave it out.
  constexpr size_t struct_bytes_min = offsetof(weightpager_options, listens);
  if (options->struct_bytes < struct_bytes_min) {
    remember({"weightpager_options.struct_bytes is too small", "set it to sizeof the struct"});
    return -1;
  }
  weightpager_options wanted{};
  std::memcpy(&wanted, options, std::min<size_t>(options->struct_bytes, sizeof wanted));
  const std::string mapper = wanted.mapper == nullptr ? "auto" : wanted.mapper;
  if (wanted.window_bytes < window_bytes_min) {
    remember({"a window of " + format_size(wanted.window_bytes) + " is below the minimum of " +
              format_size(window_bytes_min)});
    return -1;
  }
  if (!window::is_mapper_name(mapper)) {
    remember({"there is no mapper '" + mapper + "'", "auto, move, collapse, copy and module are"});
    return -1;
  }
  std::vector<std::string> mirrors;
  for (auto it = wanted.mirrors; it != nullptr && *it != nullptr; ++it) mirrors.emplace_back(*it);
  if (mirrors.size() > io::mirrors_max) {
    remember({"more than 3 mirrors", "leave some out, or join drives to one volume", EINVAL});
    return -1;
  }
  auto telemetry = telemetry::create("");
  if (!telemetry) {
    remember(telemetry.error());
    return -1;
  }
  if (wanted.listens != 0 && one_listens.exchange(true)) {
    remember({"another pager of this process listens", "open this one without", EBUSY});
    return -1;
  }
  *pager = new weightpager_pager;
  (*pager)->listens = wanted.listens != 0;
  (*pager)->mirrors = std::move(mirrors);
  (*pager)->options.window_bytes = wanted.window_bytes;
  (*pager)->options.mapper = mapper;
  (*pager)->options.telemetry = *telemetry;
  return 0;
}

weightpager_pager::~weightpager_pager() {
  socket.reset();
  answers.reset();
  if (listens) one_listens = false;
  for (const auto& [address, length_bytes] : length_by_address) {
    pager->remove(const_cast<std::byte*>(static_cast<const std::byte*>(address)), length_bytes);
  }
}

void weightpager_close(weightpager_pager* pager) { delete pager; }

const void* weightpager_map(weightpager_pager* pager, const char* path, uint64_t* length_bytes) {
  auto address = map(*pager, path, length_bytes);
  if (address) return *address;
  remember(address.error());
  return nullptr;
}

int weightpager_unmap(weightpager_pager* pager, const void* address) {
  const MutexLock lock(pager->mutex);
  const auto found = pager->length_by_address.find(address);
  if (found == pager->length_by_address.end()) {
    remember({"weightpager_unmap: no region begins at this address", "", EINVAL});
    return -1;
  }
  pager->pager->remove(const_cast<std::byte*>(static_cast<const std::byte*>(address)),
                       found->second);
  pager->length_by_address.erase(found);
  return 0;
}

void weightpager_will_need(weightpager_pager* pager, const void* address, uint64_t length_bytes) {
  advise(pager, address, length_bytes, Advice::will_need);
}

void weightpager_consumed(weightpager_pager* pager, const void* address, uint64_t length_bytes) {
  advise(pager, address, length_bytes, Advice::consumed);
}

void weightpager_get_statistics(const weightpager_pager* pager,
                                weightpager_statistics* statistics) {
  const telemetry::Telemetry& counters = *pager->options.telemetry;
  weightpager_statistics it{};
  it.struct_bytes = statistics->struct_bytes;
  // Somebody may have changed it; none before the first file is mapped.
  const uint64_t window_bytes = counters.window_bytes;
  it.window_bytes = window_bytes != 0 ? window_bytes : pager->options.window_bytes;
  it.resident_bytes = counters.resident_bytes;
  it.resident_bytes_max = counters.resident_bytes_max;
  it.faults_demand = counters.faults_demand;
  it.faults_late = counters.faults_late;
  it.faults_tripwire = counters.faults_tripwire;
  it.prefetch_hidden = counters.prefetch_hidden;
  it.read_bytes = counters.read_bytes;
  it.read_errors = counters.read_errors;
  it.stall_ns = counters.stall_ns;
  std::memcpy(statistics, &it, std::min<size_t>(statistics->struct_bytes, sizeof it));
}
