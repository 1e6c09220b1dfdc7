#include "pager/window/probe.h"

#include <sys/mman.h>

#include <string>

#include "pager/base/system_calls.h"
#include "pager/base/units.h"
#include "pager/window/page_size.h"

namespace weightpager::window {
namespace {

constexpr uint64_t scratch_bytes = 2 * huge_page_bytes;  // room for a huge page on the 2 MiB grid
constexpr std::byte probed_byte{0x5a};

Extent extent_of(uint64_t chunk_bytes) {
  return {.length_bytes = chunk_bytes, .file_size_bytes = chunk_bytes};
}

}  // namespace

tl::unexpected<Error> mapper_refused(const char* name, const char* step) {
  const int error = errno;
  return fail(std::string("the mapper '") + name + "' does not work here: " + step + ": " +
                  std::strerror(error),
              "use --mapper auto, which takes what works", error);
}

tl::unexpected<Error> mapper_too_old(const char* name, const char* what) {
  return fail(std::string("the mapper '") + name + "' needs " + what,
              "use --mapper auto, which takes what works", ENOTTY);
}

Result<ProbedChunk> ProbedChunk::of_slot(const char* mapper, AddressSpace& space,
                                         uint64_t chunk_bytes) {
  ProbedChunk it(mapper, chunk_bytes);
  void* const scratch = kernel::mmap(nullptr, scratch_bytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (scratch == MAP_FAILED) return mapper_refused(mapper, "no memory to try it with");
  it.scratch_ = scratch;
  it.bytes_ =
      reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(scratch), huge_page_bytes));
  advise_page_size(it.bytes_, huge_page_bytes, chunk_bytes);
  kernel::keep_to_process(it.bytes_, huge_page_bytes);
  it.fill();
  auto region = Region::reserve(extent_of(chunk_bytes), chunk_bytes, space);
  if (!region) return forward_error(std::move(region));
  it.region_ = std::move(*region);
  auto ready = space.uffd().register_range(it.region_->address(), chunk_bytes, true);
  if (!ready) return forward_error(std::move(ready));
  return it;
}

Result<ProbedChunk> ProbedChunk::of_view(const char* mapper, AddressSpace& space,
                                         uint64_t chunk_bytes, int view_fd, int sharing,
                                         std::byte* bytes) {
  ProbedChunk it(mapper, chunk_bytes);
  it.bytes_ = bytes;
  auto region = Region::reserve(extent_of(chunk_bytes), chunk_bytes, space, view_fd, sharing);
  if (!region) return forward_error(std::move(region));
  it.region_ = std::move(*region);
  return it;
}

ProbedChunk::ProbedChunk(ProbedChunk&& other) noexcept
    : mapper_(other.mapper_),
      chunk_bytes_(other.chunk_bytes_),
      scratch_(std::exchange(other.scratch_, nullptr)),
      bytes_(other.bytes_),
      region_(std::move(other.region_)) {}

ProbedChunk::~ProbedChunk() {
  if (scratch_ != nullptr) kernel::munmap(scratch_, scratch_bytes);
}

void ProbedChunk::fill() const { std::memset(bytes_, static_cast<int>(probed_byte), chunk_bytes_); }

bool ProbedChunk::shows_bytes(const std::byte* chunk) const {
  return chunk[0] == probed_byte && chunk[chunk_bytes_ / 2] == probed_byte &&
         chunk[chunk_bytes_ - 1] == probed_byte;
}

}  // namespace weightpager::window
