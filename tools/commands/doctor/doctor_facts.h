// The facts that `weightpager doctor` collects about a machine and a model, without any judgement.
//
// Facts are plain data. They are collected here by trying things: features are probed, versions are
// not compared. Pure functions in doctor_rows.h judge them, so the judgement can be tested for
// machines that are not at hand. Cost: milliseconds, except for the reading speed of a model
// (1.5 s) and the writing speed of a folder (1 s).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pager/base/memory_limit.h"
#include "pager/base/result.h"
#include "pager/io/model_file.h"
#include "tools/probes/userfaultfd_access.h"

namespace weightpager::tools {

inline constexpr uint64_t unlimited_bytes = UINT64_MAX;

struct MapperFacts {
  /// The mapper that `--mapper auto` takes; "" if none works.
  std::string name;
  /// Why no mapper works; if the mapper is `copy`, why `move` does not work.
  Error problem;
};

struct HugePageFacts {
  /// The chosen word of …/transparent_hugepage/enabled and of hugepages-2048kB/enabled (Linux 6.8);
  /// "" where the kernel has no such file.
  std::string mode;
  std::string mode_of_2mib;
  /// The same for shmem_enabled.
  std::string shared_mode;
  /// Disabled by prctl(PR_SET_THP_DISABLE), which children inherit.
  bool is_disabled_for_process = false;
  /// An advised range of 2 MiB became one huge page when it was written to.
  bool probe_became_huge = false;
};

struct SwapFacts {
  uint64_t total_bytes = 0;
  uint64_t used_bytes = 0;
  bool has_zswap = false;
};

struct SystemFacts {
  std::string kernel;  // "Linux 6.8.0-45-generic x86_64"
  UserfaultfdAccess userfaultfd;
  MapperFacts mapper;
  /// Why weightpager.ko gives no window; nullopt if it does.
  std::optional<Error> module_problem;
  bool has_pagemap_scan = false;
  /// Why io_uring is refused; nullopt if it works.
  std::optional<Error> uring_problem;
  HugePageFacts huge_pages;
  uint64_t memlock_bytes = unlimited_bytes;
  uint64_t address_space_bytes = unlimited_bytes;
  /// 0 if unknown.
  uint64_t max_map_count = 0;
  uint64_t memory_bytes = 0;
  uint64_t memory_available_bytes = 0;
  /// The lowest of the machine's memory and the memory cgroups' limits.
  MemoryLimit memory_limit;
  SwapFacts swap;
  /// The directory for the sockets of this user's live pagers, or why there can be no socket.
  Result<std::string> control_directory;
};

/// A measurement of the reading speed, or the reason why there is none.
struct ReadingFacts {
  uint64_t read_bytes = 0;
  uint64_t elapsed_ns = 0;
  std::string reader;
  uint64_t huge_bytes = 0;  // the part of the buffers that lies in huge pages
  uint64_t buffer_bytes = 0;
  std::optional<Error> problem;
};

struct ModelFacts {
  std::string path;
  std::string format;
  std::string architecture;
  uint64_t files = 0;
  uint64_t layers = 0;
  uint64_t tensors = 0;
  uint64_t size_bytes = 0;
  uint64_t largest_layer_bytes = 0;
  /// Whether `weightpager run` pages the file without --match.
  bool is_found_by_name = false;
  std::string filesystem;  // "ext4"; "" if unknown
  std::string source;      // "/dev/vda1"
  /// The first file that cannot be read past the page cache; "" if all can.
  std::string cached_file;
  /// The alignment that direct reads of all files need; 0 if no file can be read directly.
  uint32_t alignment_bytes = 0;
  io::DeviceLimits device;
  ReadingFacts reading;
};

/// A measurement of the writing speed, or the reason why there is none.
struct WritingFacts {
  uint64_t written_bytes = 0;
  uint64_t elapsed_ns = 0;
  std::optional<Error> problem;
};

/// The folder of `run --spill`.
struct SpillFacts {
  std::string folder;
  /// Why no spill file can be made there; all below is unknown then.
  std::optional<Error> problem;
  std::string filesystem;
  std::string source;
  bool is_direct = false;
  /// nullopt: the kernel does not tell.
  std::optional<bool> is_rotational;
  uint64_t room_bytes = 0;
  WritingFacts writing;
};

struct CudaDevice {
  std::string name;
  uint64_t memory_bytes = 0;
  bool has_unified_addressing = false;
  bool has_pageable_memory_access = false;
  bool can_map_host_memory = false;
  bool can_use_stream_memory_operations = false;
};

struct CudaFacts {
  bool has_driver = false;
  /// The driver's error, if it could not be started: "CUDA_ERROR_NO_DEVICE (100)".
  std::string problem;
  std::vector<CudaDevice> devices;
};

struct Facts {
  SystemFacts system;
  /// nullopt without MODEL; an error if the model cannot be read or trusted.
  std::optional<Result<ModelFacts>> model;
  std::optional<uint64_t> window_bytes;
  /// nullopt without --spill.
  std::optional<SpillFacts> spill;
  CudaFacts cuda;
};

SystemFacts collect_system_facts();
/// Facts about all files of the model that `path` belongs to. Reads the model for 1.5 s at most.
Result<ModelFacts> collect_model_facts(const std::string& path);
/// Writes to the folder for a second and 256 MiB at most.
SpillFacts collect_spill_facts(const std::string& folder);
CudaFacts collect_cuda_facts();

}  // namespace weightpager::tools
