// The judgement of `weightpager doctor`, for machines that are not at hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "pager/base/units.h"
#include "pager/fault/userfaultfd_abi.h"
#include "tools/commands/doctor/doctor_report.h"
#include "tools/commands/doctor/doctor_rows.h"

namespace weightpager::tools {
namespace {

using fault::Door;

constexpr uint64_t write_protection = UFFD_FEATURE_PAGEFAULT_FLAG_WP;
constexpr uint64_t asynchronous_write_protection = 1 << 15;
constexpr uint64_t move = UFFD_FEATURE_MOVE;

/// Linux 6.18 as root, on which nothing is wrong.
SystemFacts well_system() {
  SystemFacts system;
  system.kernel = "Linux 6.18.0 x86_64";
  system.userfaultfd.features = write_protection | asynchronous_write_protection | move;
  system.userfaultfd.user = "ada";
  system.mapper.name = "move";
  system.has_pagemap_scan = true;
  system.huge_pages = {"madvise", "inherit", "never", false, true};
  system.memlock_bytes = 8 * MiB;
  system.max_map_count = 65530;
  system.memory_bytes = 24 * GiB;
  system.memory_available_bytes = 20 * GiB;
  system.memory_limit = {24 * GiB, "/proc/meminfo (MemTotal)"};
  system.control_directory = "/run/user/1000/weightpager";
  return system;
}

ModelFacts well_model() {
  ModelFacts model;
  model.path = "/models/llama.gguf";
  model.format = "gguf";
  model.architecture = "llama";
  model.files = 1;
  model.layers = 12;
  model.tensors = 93;
  model.size_bytes = 4 * GiB;
  model.is_found_by_name = true;
  model.filesystem = "ext4";
  model.source = "/dev/vda1";
  model.alignment_bytes = 512;
  model.device = {2u << 20, 16, 128u << 10};
  model.reading = {3'000'000'000, 3 * second_ns / 2, "io_uring", 32 * MiB, 32 * MiB, {}};
  return model;
}

class DoctorTest : public testing::Test {
 protected:
  DoctorTest() { facts_.system = well_system(); }

  void add_model(const ModelFacts& model) { facts_.model.emplace(model); }

  /// The first row of that name, as "verdict: finding | cure".
  std::string judged(const std::string& id) const {
    for (const Row& row : judge(facts_)) {
      if (row.id != id) continue;
      return verdict_name(row.verdict) + (": " + row.finding) +
             (row.cure.empty() ? "" : " | " + row.cure);
    }
    return "no such row";
  }

  RowVerdict verdict() const { return worst(judge(facts_)); }

  Facts facts_;
};

TEST_F(DoctorTest, FindsNothingWhereNothingIsWrong) {
  add_model(well_model());
  facts_.window_bytes = 1 * GiB;
  std::string findings;
  for (const Row& row : judge(facts_)) {
    EXPECT_EQ(row.cure, "") << row.id;
    findings += row.id + ": " + verdict_name(row.verdict) + ": " + row.finding + "\n";
  }
  EXPECT_EQ(
      findings,
      "kernel: info: Linux 6.18.0 x86_64\n"
      "userfaultfd: ok: all faults, through /dev/userfaultfd\n"
      "mapper: ok: move: chunks get into place without a copy\n"
      "spilling: ok: weights that engines read can be served; with run --spill those that they "
      "convert or repack, too\n"
      "kernel_module: ok: works: GPUs' drivers, too, wait for weights that are not in memory\n"
      "written_pages: ok: found by asynchronous write protection and PAGEMAP_SCAN\n"
      "io_uring: ok: works\n"
      "huge_pages: ok: madvise: a range of 2 MiB became one huge page\n"
      "shared_huge_pages: info: never\n"
      "memlock: ok: 8.0 MiB\n"
      "max_map_count: ok: 65530\n"
      "address_space: ok: unlimited\n"
      "memory: ok: 20.0 GiB available of 24.0 GiB\n"
      "memory_limit: ok: 24.0 GiB (the machine's memory, no cgroup is below)\n"
      "swap: info: none\n"
      "control: ok: sockets of live pagers lie in /run/user/1000/weightpager\n"
      "model: ok: gguf llama, 4.0 GiB in 1 file, 12 layers, 93 tensors\n"
      "filesystem: info: ext4 on /dev/vda1\n"
      "direct_reads: ok: O_DIRECT works, in units of 512 bytes\n"
      "device: info: 16 reads of 2.0 MiB; the kernel's own mmap reads ahead 128.0 KiB\n"
      "reading: ok: 2.00 GB/s over 1.5 s (io_uring, direct, huge pages)\n"
      "window: info: holds 25 % of the model; a pass reads at least 3.0 GiB, 1.61 s\n"
      "workers: info: children that are forked after the model is mapped are outside the window: "
      "let workers map it themselves, by `weightpager serve` and `run --attach`\n"
      "cuda: info: no CUDA driver\n");
  EXPECT_EQ(verdict(), RowVerdict::ok);
}

// --- userfaultfd --------------------------------------------------------------------------------

TEST_F(DoctorTest, TheSystemCallServesAllFaultsToo) {
  facts_.system.userfaultfd.error_of(Door::device) = ENOENT;
  EXPECT_EQ(judged("userfaultfd"), "ok: all faults, through the system call");
}

TEST_F(DoctorTest, UserModeOnlyIsCuredByAccessToTheDevice) {
  UserfaultfdAccess& access = facts_.system.userfaultfd;
  access.error_of(Door::device) = EACCES;
  access.error_of(Door::system_call) = EPERM;
  const std::string finding =
      "warn: user-mode only for user ada: system calls on weights that are not resident fail "
      "(EFAULT) | ";
  EXPECT_EQ(judged("userfaultfd"), finding +
                                       "sudo setfacl -m u:ada:rw /dev/userfaultfd "
                                       "(package acl; lasts until the next boot)");
  access.error_of(Door::device) = ENOENT;
  EXPECT_EQ(judged("userfaultfd"), finding + "sudo sysctl vm.unprivileged_userfaultfd=1");
  access.has_seccomp_filter = true;
  EXPECT_EQ(judged("userfaultfd"), finding + "start the container with --device /dev/userfaultfd");
  EXPECT_EQ(verdict(), RowVerdict::warn);
}

TEST_F(DoctorTest, SeccompThatRefusesEveryDoorIsAFailure) {
  facts_.system.userfaultfd = {{EACCES, EPERM, EPERM}, 0, true, "ada"};
  facts_.system.mapper = {};
  const std::string finding =
      "fail: userfaultfd is refused to user ada: Operation not permitted (a seccomp filter is in "
      "force) | ";
  const std::string other_way =
      ", or allow the userfaultfd system call in the seccomp filter (a container's: "
      "--security-opt seccomp=PROFILE.json)";
  EXPECT_EQ(judged("userfaultfd"),
            finding +
                "sudo setfacl -m u:ada:rw /dev/userfaultfd (package acl; lasts until the next "
                "boot)" +
                other_way);
  facts_.system.userfaultfd.error_of(Door::device) = ENOENT;
  EXPECT_EQ(judged("userfaultfd"),
            finding + "start the container with --device /dev/userfaultfd" + other_way);
  EXPECT_EQ(judged("mapper"), "info: not tried without userfaultfd");
  EXPECT_EQ(judged("written_pages"), "info: not tried without userfaultfd");
  EXPECT_EQ(verdict(), RowVerdict::fail);
}

TEST_F(DoctorTest, TellsWhyThereIsNoUserfaultfdWithoutAFilter) {
  UserfaultfdAccess& access = facts_.system.userfaultfd;
  const std::string refused = "fail: userfaultfd is refused to user ada: ";
  access = {{ENOENT, ENOSYS, ENOSYS}, 0, false, "ada"};
  EXPECT_EQ(judged("userfaultfd"),
            refused +
                "Function not implemented | boot a kernel with CONFIG_USERFAULTFD, such as "
                "Debian's or Ubuntu's (a sandbox like gVisor has none)");
  access = {{ENOENT, EPERM, EINVAL}, 0, false, "ada"};
  EXPECT_EQ(judged("userfaultfd"),
            refused + "Invalid argument | sudo sysctl vm.unprivileged_userfaultfd=1");
  access = {{EMFILE, EMFILE, EMFILE}, 0, false, "ada"};
  EXPECT_EQ(judged("userfaultfd"), refused + "Too many open files | ulimit -n 4096");
  access = {{ENOENT, EPERM, EPERM}, 0, false, "ada"};
  EXPECT_EQ(judged("userfaultfd"),
            refused + "Operation not permitted | a security module refuses it: see `sudo dmesg`");
}

TEST_F(DoctorTest, TheKernelModuleMayBeMissingButNotRefused) {
  EXPECT_EQ(judged("kernel_module"),
            "ok: works: GPUs' drivers, too, wait for weights that are not in memory");
  facts_.system.module_problem = Error{"the kernel module's /dev/weightpager: …", "…", ENOENT};
  EXPECT_EQ(judged("kernel_module"),
            "info: not loaded: needed only where GPUs' drivers touch weights (kmod/README.md)");
  facts_.system.module_problem = Error{"the kernel module's /dev/weightpager: Permission denied",
                                       "setfacl -m u:$USER:rw /dev/weightpager", EACCES};
  EXPECT_EQ(judged("kernel_module"),
            "warn: the kernel module's /dev/weightpager: Permission denied | setfacl -m "
            "u:$USER:rw /dev/weightpager");
}

TEST_F(DoctorTest, Linux61CopiesAndCannotFindWrittenPages) {
  facts_.system.userfaultfd.features = write_protection;
  facts_.system.has_pagemap_scan = false;
  facts_.system.mapper = {"copy", {"this kernel lacks UFFDIO_MOVE", "", ENOTTY}};
  EXPECT_EQ(judged("mapper"),
            "warn: copy, 0.6 ms a chunk: this kernel lacks UFFDIO_MOVE | boot "
            "Linux 6.8 or newer (Debian 12: apt install -t bookworm-backports linux-image-amd64)");
  EXPECT_EQ(judged("written_pages"),
            "warn: cannot be told from others: no asynchronous write protection or PAGEMAP_SCAN | "
            "boot Linux 6.7 or newer, if engines map their weights writable (PyTorch does)");
  EXPECT_EQ(verdict(), RowVerdict::warn);
}

TEST_F(DoctorTest, WrittenPagesNeedBothHalves) {
  facts_.system.has_pagemap_scan = false;
  EXPECT_EQ(judged("written_pages").rfind("warn: ", 0), 0u);
  facts_.system.has_pagemap_scan = true;
  facts_.system.userfaultfd.features = write_protection | move;
  EXPECT_EQ(judged("written_pages").rfind("warn: ", 0), 0u);
}

TEST_F(DoctorTest, NoMapperIsAFailure) {
  facts_.system.mapper = {"", {"mapping a chunk: Invalid argument", "ulimit -v unlimited", 0}};
  EXPECT_EQ(judged("mapper"),
            "fail: none works: mapping a chunk: Invalid argument | ulimit -v unlimited");
}

// --- memory of the engine's own -----------------------------------------------------------------

SpillFacts well_folder() {
  SpillFacts spill;
  spill.folder = "/var/tmp";
  spill.filesystem = "ext4";
  spill.source = "/dev/vda1";
  spill.is_direct = true;
  spill.is_rotational = false;
  spill.room_bytes = 100 * GiB;
  spill.writing = {256'000'000, second_ns / 4, {}};
  return spill;
}

TEST_F(DoctorTest, SpillingTakesMovesAndAllFaults) {
  facts_.system.userfaultfd.error_of(Door::device) = EACCES;
  facts_.system.userfaultfd.error_of(Door::system_call) = EPERM;
  EXPECT_EQ(judged("spilling"),
            "warn: run --spill is refused: no right to serve faults inside system calls | sudo "
            "setfacl -m u:ada:rw /dev/userfaultfd (package acl; lasts until the next boot)");
  facts_.system.userfaultfd.features = write_protection;
  EXPECT_EQ(
      judged("spilling"),
      "warn: run --spill is refused: this kernel cannot move pages (UFFDIO_MOVE) | boot Linux "
      "6.8 or newer");
}

TEST_F(DoctorTest, ASpillFolderIsJudgedByRoomSpeedAndWear) {
  EXPECT_EQ(judged("spill_folder"), "no such row");
  facts_.spill = well_folder();
  EXPECT_EQ(judged("spill_folder"), "ok: /var/tmp: ext4 on /dev/vda1");
  EXPECT_EQ(judged("spill_room"), "ok: 100.0 GiB free");
  EXPECT_EQ(judged("spill_writing"), "ok: 1.02 GB/s over 0.2 s");
  EXPECT_EQ(
      judged("spill_wear"),
      "info: an engine that converts or repacks its weights writes what does not fit into the "
      "window at each start; one that reads or maps them, nothing (`spill_written_bytes` of "
      "run --json)");
  facts_.spill->is_rotational = true;
  EXPECT_TRUE(
      judged("spill_wear")
          .ends_with("; the kernel takes this disk for a spinning one, which does not wear"));
  add_model(well_model());
  facts_.window_bytes = 1 * GiB;
  facts_.spill->room_bytes = 2 * GiB;
  facts_.spill->writing.elapsed_ns = second_ns;
  EXPECT_EQ(
      judged("spill_room"),
      "warn: 2.0 GiB free: an engine that converts or repacks this model needs 3.0 GiB | free "
      "some (`df`), or --spill a folder on another disk");
  EXPECT_EQ(judged("spill_writing"),
            "warn: 0.26 GB/s over 1.0 s; what does not fit of a repacked copy takes 12.6 s: slow, "
            "and each start waits for it | --spill /a/folder/on/a/local/solid-state/disk");
  facts_.spill->is_direct = false;
  EXPECT_EQ(judged("spill_folder").rfind("warn: /var/tmp: ext4 on /dev/vda1: no O_DIRECT", 0), 0u);
}

TEST_F(DoctorTest, AFolderThatCannotTakeASpillFileIsAFailure) {
  facts_.spill =
      SpillFacts{.folder = "/dev/shm",
                 .problem = Error{"its file system is in memory", "--spill DIR", EINVAL}};
  EXPECT_EQ(judged("spill_folder"), "fail: its file system is in memory | --spill DIR");
  EXPECT_EQ(judged("spill_writing"), "no such row");
  EXPECT_EQ(verdict(), RowVerdict::fail);
}

// --- reading and memory -------------------------------------------------------------------------

TEST_F(DoctorTest, WithoutASocketEnginesAreNotFound) {
  facts_.system.control_directory =
      fail("libuv.so.1: cannot open shared object file", "install it");
  EXPECT_EQ(
      judged("control"),
      "warn: libuv.so.1: cannot open shared object file: `weightpager stat` and its like will "
      "not find engines | install it");
  facts_.system.control_directory = "/run/weightpager";
  facts_.system.address_space_bytes = 64 * GiB;
  EXPECT_EQ(judged("control"),
            "warn: there is none where address space is limited | ulimit -v unlimited");
}

TEST_F(DoctorTest, WithoutUringThreadsRead) {
  facts_.system.uring_problem =
      Error{"io_uring is refused", "sysctl -w kernel.io_uring_disabled=0"};
  EXPECT_EQ(judged("io_uring"),
            "warn: io_uring is refused: threads read instead, a little slower | sysctl -w "
            "kernel.io_uring_disabled=0");
}

TEST_F(DoctorTest, NamesWhatWithholdsHugePages) {
  HugePageFacts& huge = facts_.system.huge_pages;
  huge.probe_became_huge = false;
  const std::string finding =
      ": a range of 2 MiB stayed small pages, chunks move 20 times slower | ";
  EXPECT_EQ(judged("huge_pages"),
            "warn: madvise" + finding +
                "free some memory, then: echo 1 | sudo tee /proc/sys/vm/compact_memory");
  huge.mode_of_2mib = "never";
  EXPECT_EQ(judged("huge_pages"),
            "warn: madvise" + finding +
                "echo inherit | sudo tee "
                "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled");
  huge.mode = "never";
  EXPECT_EQ(judged("huge_pages"),
            "warn: never" + finding +
                "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
  huge.mode = "";
  EXPECT_EQ(judged("huge_pages"),
            "warn: none" + finding + "boot a kernel with CONFIG_TRANSPARENT_HUGEPAGE");
  huge.is_disabled_for_process = true;
  EXPECT_EQ(judged("huge_pages"),
            "warn: none" + finding +
                "start weightpager from another shell: a parent of this one called "
                "prctl(PR_SET_THP_DISABLE)");
}

TEST_F(DoctorTest, TheRingFitsALockedMemoryOf64KiB) {
  facts_.system.memlock_bytes = 64 * KiB;
  EXPECT_EQ(judged("memlock"), "ok: 64.0 KiB");
  facts_.system.memlock_bytes = 60 * KiB;
  EXPECT_EQ(judged("memlock"),
            "warn: 60.0 KiB: less than 64.0 KiB, the kernel may refuse io_uring | sudo prlimit "
            "--pid $$ --memlock=65536");
}

TEST_F(DoctorTest, FewerMappingsThanTheKernelsDefaultAreSuspicious) {
  facts_.system.max_map_count = 1024;
  EXPECT_EQ(judged("max_map_count"),
            "warn: 1024: less than the kernel's default of 65530 | sudo sysctl "
            "vm.max_map_count=65530");
}

TEST_F(DoctorTest, ALimitedAddressSpaceMustHoldModelAndWindow) {
  facts_.system.address_space_bytes = 8 * GiB;
  EXPECT_EQ(judged("address_space"),
            "warn: 8.0 GiB: model and window take 32.0 MiB of it and the model's size | ulimit -v "
            "unlimited");
  add_model(well_model());
  facts_.window_bytes = 1 * GiB;
  EXPECT_EQ(judged("address_space"),
            "warn: 8.0 GiB: model and window take 5.0 GiB of it | ulimit -v unlimited");
  facts_.system.address_space_bytes = 5 * GiB - 1;
  EXPECT_EQ(verdict(), RowVerdict::fail);
  facts_.system.address_space_bytes = 5 * GiB;
  EXPECT_EQ(verdict(), RowVerdict::warn);
}

TEST_F(DoctorTest, AWindowAboveTheAvailableMemoryIsAWarning) {
  facts_.window_bytes = 20 * GiB;
  EXPECT_EQ(judged("memory"), "ok: 20.0 GiB available of 24.0 GiB");
  facts_.window_bytes = 21 * GiB;
  EXPECT_EQ(judged("memory"),
            "warn: 20.0 GiB available of 24.0 GiB, less than the window of 21.0 GiB | --window "
            "16384MiB, or end other programs");
}

TEST_F(DoctorTest, HoldsTheWindowAgainstTheCgroup) {
  facts_.system.memory_limit = {1 * GiB, "/sys/fs/cgroup/x/memory.max"};
  EXPECT_EQ(judged("memory_limit"), "ok: 1.0 GiB (/sys/fs/cgroup/x/memory.max)");
  facts_.window_bytes = 512 * MiB;
  EXPECT_EQ(judged("memory_limit"), "ok: 1.0 GiB (/sys/fs/cgroup/x/memory.max)");
  facts_.window_bytes = 1000 * MiB;
  EXPECT_EQ(judged("memory_limit"),
            "warn: 1.0 GiB (/sys/fs/cgroup/x/memory.max): beside a window of 1000.0 MiB the "
            "engine has 24.0 MiB | --window 818MiB, or echo 1310720000 | sudo tee "
            "/sys/fs/cgroup/x/memory.max");
  facts_.window_bytes = 2 * GiB;
  EXPECT_EQ(judged("memory_limit"),
            "fail: 1.0 GiB (/sys/fs/cgroup/x/memory.max): too small for a window of 2.0 GiB | "
            "--window 818MiB, or echo 2684354560 | sudo tee /sys/fs/cgroup/x/memory.max");
}

TEST_F(DoctorTest, ACgroupBelowTheSmallestWindowHasNoSmallerOneToOffer) {
  facts_.system.memory_limit = {16 * MiB, "/sys/fs/cgroup/x/memory.max"};
  EXPECT_EQ(judged("memory_limit"),
            "fail: 16.0 MiB (/sys/fs/cgroup/x/memory.max): too small for a window of 32.0 MiB | "
            "echo 41943040 | sudo tee /sys/fs/cgroup/x/memory.max");
}

TEST_F(DoctorTest, TellsOfSwap) {
  facts_.system.swap = {4 * GiB, 1 * GiB, true};
  EXPECT_EQ(judged("swap"),
            "info: 1.0 GiB of 4.0 GiB used, zswap: short of memory, the kernel would write the "
            "window there");
}

// --- the model ----------------------------------------------------------------------------------

TEST_F(DoctorTest, WithoutAModelItHasNoRows) {
  EXPECT_EQ(judged("model"), "no such row");
  EXPECT_EQ(judged("window"), "no such row");
}

TEST_F(DoctorTest, ABrokenModelIsOneRow) {
  facts_.model.emplace(fail("x.gguf, byte 8: no", "download it again"));
  EXPECT_EQ(judged("model"), "fail: x.gguf, byte 8: no | download it again");
  EXPECT_EQ(judged("reading"), "no such row");
}

TEST_F(DoctorTest, OffersTheGlobForAModelOfAnotherName) {
  ModelFacts model = well_model();
  model.is_found_by_name = false;
  for (const auto& [path, glob] : {std::pair{"/m/yolo.weights", "*.weights"},
                                   std::pair{"/m.x/yolo", "*yolo"}, std::pair{"yolo", "*yolo"}}) {
    model.path = path;
    add_model(model);
    EXPECT_EQ(judged("model"),
              "warn: gguf llama, 4.0 GiB in 1 file, 12 layers, 93 tensors: not paged by its name | "
              "weightpager run --match '" +
                  std::string(glob) + "'");
  }
}

TEST_F(DoctorTest, AModelInMemoryCannotBePaged) {
  ModelFacts model = well_model();
  model.filesystem = "tmpfs";
  model.cached_file = model.path;
  add_model(model);
  EXPECT_EQ(judged("direct_reads"),
            "warn: tmpfs keeps the whole model in memory: paging saves nothing | cp -L "
            "/models/llama.gguf /a/folder/on/ext4-xfs-or-btrfs/");
  EXPECT_EQ(judged("reading"),
            "ok: 2.00 GB/s over 1.5 s (io_uring, through the page cache, huge pages)");
}

TEST_F(DoctorTest, AFilesystemWithoutDirectReadsIsAWarning) {
  ModelFacts model = well_model();
  model.filesystem = "fuse.sshfs";
  model.cached_file = "/models/part2.gguf";
  add_model(model);
  EXPECT_EQ(judged("direct_reads"),
            "warn: no O_DIRECT for /models/part2.gguf: the page cache keeps a second copy | cp -L "
            "/models/part2.gguf /a/folder/on/ext4-xfs-or-btrfs/");
}

TEST_F(DoctorTest, SlowAndFailedReadingIsNotHidden) {
  ModelFacts model = well_model();
  model.reading.elapsed_ns = 15 * second_ns;
  model.reading.huge_bytes = 30 * MiB;
  add_model(model);
  EXPECT_EQ(judged("reading"),
            "warn: 0.20 GB/s over 15.0 s (io_uring, direct, small pages): slow | cp -L "
            "/models/llama.gguf /a/folder/on/a/local/solid-state/disk/");
  model.reading.problem = Error{"reading failed: Input/output error", "sudo dmesg", EIO};
  add_model(model);
  EXPECT_EQ(judged("reading"), "fail: reading failed: Input/output error | sudo dmesg");
}

TEST_F(DoctorTest, ASmallModelTellsNothingOfTheDisk) {
  ModelFacts model = well_model();
  model.size_bytes = 32 * MiB;
  model.reading.read_bytes = 32 * MiB;
  add_model(model);
  EXPECT_EQ(judged("reading"), "info: not measured: a model below 64.0 MiB tells nothing");
  EXPECT_EQ(judged("window"), "info: from 32.0 MiB on; the model would fit into memory whole");
  facts_.window_bytes = 64 * MiB;
  EXPECT_EQ(judged("window"), "info: holds 100 % of the model");
}

TEST_F(DoctorTest, SaysWhetherTheModelFitsIntoTheLimit) {
  add_model(well_model());
  facts_.system.memory_limit = {4 * GiB - 1, "a test"};
  EXPECT_EQ(judged("window"), "info: from 32.0 MiB on; the model is larger than memory");
}

// --- CUDA ---------------------------------------------------------------------------------------

TEST_F(DoctorTest, HasARowForEachGpu) {
  facts_.cuda = {true, "", {{"H100", 80 * GiB, true, false, true, true}, {"T4", 16 * GiB}}};
  std::vector<Row> rows = judge(facts_);
  ASSERT_EQ(std::count_if(rows.begin(), rows.end(), [](auto& row) { return row.id == "cuda"; }), 2);
  EXPECT_EQ(judged("cuda"),
            "ok: H100, 80.0 GiB; unified addressing yes, maps host memory yes, pageable access no, "
            "stream waits yes");
  EXPECT_EQ(rows.back().facts["name"], "T4");
  EXPECT_EQ(rows.back().facts["can_map_host_memory"], false);
}

TEST_F(DoctorTest, ADriverThatDoesNotStartIsAWarning) {
  facts_.cuda = {true, "CUDA_ERROR_NO_DEVICE (100)", {}};
  EXPECT_EQ(judged("cuda"),
            "warn: the driver's library is there, but says CUDA_ERROR_NO_DEVICE (100) | nvidia-smi "
            "(it says more), or start the container with --gpus all");
}

// --- how it is shown ----------------------------------------------------------------------------

const std::vector<Row> sample_rows = {
    {"kernel", RowVerdict::information, "some", "", {}},
    {"huge_pages", RowVerdict::warn, "never", "echo 1", {{"mode", "x"}}},
    {"io_uring", RowVerdict::fail, "\xff", "", {}}};

TEST(DoctorReport, AlignsTheTableAndPutsTheCureBelow) {
  EXPECT_EQ(doctor_table(sample_rows, false),
            "info  kernel      some\n"
            "warn  huge pages  never\n"
            "                  cure: echo 1\n"
            "fail  io_uring    \xff\n"
            "1 failed, 1 warned\n");
  EXPECT_EQ(doctor_table({{"memlock", RowVerdict::ok, "8", "", {}}}, false),
            "ok    memlock  8\nall is well\n");
}

TEST(DoctorReport, ColoursTheVerdictOnly) {
  EXPECT_EQ(doctor_table({{"memlock", RowVerdict::ok, "8", "", {}}}, true),
            "\033[32mok  \033[0m  memlock  8\nall is well\n");
}

TEST(DoctorReport, JsonHasTheRowsAndTheWorstVerdict) {
  const auto json = nlohmann::json::parse(doctor_json(sample_rows));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["verdict"], "fail");
  ASSERT_EQ(json["rows"].size(), 3u);
  EXPECT_EQ(json["rows"][1], nlohmann::json({{"id", "huge_pages"},
                                             {"verdict", "warn"},
                                             {"finding", "never"},
                                             {"cure", "echo 1"},
                                             {"facts", {{"mode", "x"}}}}));
  EXPECT_EQ(json["rows"][0]["cure"], nullptr);
  EXPECT_EQ(json["rows"][2]["finding"], "\xef\xbf\xbd");
}

}  // namespace
}  // namespace weightpager::tools
