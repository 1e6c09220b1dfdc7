// Finds out what the kernel offers to this user, by trying each thing once.
#include <dlfcn.h>
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <map>

#include "pager/base/units.h"
#include "pager/control/plugin.h"
#include "pager/control/runtime_directory.h"
#include "pager/fault/userfaultfd.h"
#include "pager/io/reader.h"
#include "pager/window/backing_memory.h"
#include "pager/window/large_folios.h"
#include "pager/window/module_window.h"
#include "tools/commands/doctor/doctor_facts.h"
#include "tools/commands/run/engine_file.h"
#include "tools/probes/huge_memory.h"

namespace weightpager::tools {
namespace {

std::string kernel() {
  utsname name;
  if (uname(&name) != 0) return "unknown";
  return fmt::format("{} {} {}", name.sysname, name.release, name.machine);
}

MapperFacts probe_mapper(const UserfaultfdAccess& access) {
  if (auto open = check_userfaultfd(access); !open) return {"", open.error()};
  auto uffd = fault::Userfaultfd::open();
  if (!uffd) return {"", uffd.error()};
  window::AddressSpace own(std::move(*uffd));
  const auto chosen = window::choose_mapper("auto", own, chunk_bytes_max);
  if (!chosen) return {"", chosen.error()};
  MapperFacts facts{std::string(*chosen), {}};
  if (facts.name == "move") return facts;
  if (const auto move = window::choose_mapper("move", own, chunk_bytes_max); !move)
    facts.problem = move.error();
  return facts;
}

std::optional<Error> try_module() {
  const auto window = window::ModuleWindow::create(1, chunk_bytes_max);
  if (window) return {};
  return window.error();
}

/// The argument of PAGEMAP_SCAN (Documentation/admin-guide/mm/pagemap.rst), which is newer than the
/// headers of Debian 12. A call without room for an answer only tells whether the kernel has it.
struct PagemapScan {
  uint64_t size_bytes = sizeof(PagemapScan);
  uint64_t flags = 0;
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t walk_end = 0;
  uint64_t answer = 0;
  uint64_t answer_length = 0;
  uint64_t pages_max = 0;
  uint64_t category_inverted = 0;
  uint64_t category_mask = 0;
  uint64_t category_anyof_mask = 0;
  uint64_t return_mask = 0;
};

bool has_pagemap_scan() {
  std::FILE* const pagemap = std::fopen("/proc/self/pagemap", "re");
  if (pagemap == nullptr) return false;
  PagemapScan question;
  const bool is_there = ioctl(fileno(pagemap), _IOWR('f', 16, PagemapScan), &question) >= 0;
  std::fclose(pagemap);
  return is_there;
}

std::optional<Error> try_uring() {
  const auto reader = io::open_uring_reader({});
  if (reader) return std::nullopt;
  return reader.error();
}

HugePageFacts probe_huge_pages() {
  const std::string directory = "/sys/kernel/mm/transparent_hugepage/";
  using window::chosen_word;
  HugePageFacts facts;
  facts.mode = chosen_word(directory + "enabled");
  facts.mode_of_2mib = chosen_word(directory + "hugepages-2048kB/enabled");
  facts.shared_mode = chosen_word(directory + "shmem_enabled");
  facts.is_disabled_for_process = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) > 0;
  const auto memory = HugeMemory::create(1);
  facts.probe_became_huge = memory && memory->huge_bytes() >= huge_page_bytes;
  return facts;
}

template <typename Resource>
uint64_t limit_bytes(Resource resource) {
  rlimit limit;
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited_bytes;
  return limit.rlim_cur;
}

uint64_t number_in(const char* path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : 0;
}

std::map<std::string, uint64_t> memory_account_bytes() {
  std::map<std::string, uint64_t> bytes;
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  for (uint64_t kib = 0; meminfo >> key >> kib;) {
    bytes[key] = kib * KiB;
    meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return bytes;
}

bool has_zswap() {
  std::ifstream file("/sys/module/zswap/parameters/enabled");
  return file.get() == 'Y';
}

/// Tries to open the control socket in the way that an engine's process does
/// (pager/preload/control.cc).
Result<std::string> try_control_socket() {
  const auto interposer = find_interposer();
  if (!interposer) return interposer;
  const std::string folder = interposer->substr(0, interposer->rfind('/') + 1);
  if (dlopen((folder + control::plugin_file).c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    return fail(dlerror(), "sudo apt install libuv1, or install weightpager again");
  }
  return control::runtime_directory();
}

}  // namespace

SystemFacts collect_system_facts() {
  SystemFacts facts;
  facts.kernel = kernel();
  facts.userfaultfd = probe_userfaultfd();
  facts.mapper = probe_mapper(facts.userfaultfd);
  facts.module_problem = try_module();
  facts.has_pagemap_scan = has_pagemap_scan();
  facts.uring_problem = try_uring();
  facts.huge_pages = probe_huge_pages();
  facts.memlock_bytes = limit_bytes(RLIMIT_MEMLOCK);
  facts.address_space_bytes = limit_bytes(RLIMIT_AS);
  facts.max_map_count = number_in("/proc/sys/vm/max_map_count");
  auto account = memory_account_bytes();
  facts.memory_bytes = account["MemTotal:"];
  facts.memory_available_bytes = account["MemAvailable:"];
  facts.memory_limit = memory_limit();
  facts.swap = {account["SwapTotal:"], account["SwapTotal:"] - account["SwapFree:"], has_zswap()};
  facts.control_directory = try_control_socket();
  return facts;
}

}  // namespace weightpager::tools
