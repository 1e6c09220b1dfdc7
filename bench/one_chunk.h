// One chunk of one region, or a few neighbours, and the bytes that they are to show, by the mapper
// of one's choice: what benchmarks measure that compare mappers.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "pager/base/result.h"
#include "pager/fault/userfaultfd.h"
#include "pager/window/address_space.h"
#include "pager/window/backing_memory.h"
#include "pager/window/live_pages.h"
#include "pager/window/memory_file.h"
#include "pager/window/module_window.h"
#include "pager/window/region.h"
#include "pager/window/slot_pool.h"

namespace weightpager {

class OneChunk {
 public:
  /// `mapper`: "move", "copy", "collapse" or "module". The chunk has all bytes 0 but its first
  /// word; it is not shown yet. `chunks`: so many neighbours, which come and go together; 1 for
  /// "module".
  static Result<std::unique_ptr<OneChunk>> create(const char* mapper, uint64_t chunk_bytes,
                                                  uint64_t word = 0, uint32_t chunks = 1) {
    auto uffd = fault::Userfaultfd::open();
    if (!uffd) return forward_error(std::move(uffd));
    std::unique_ptr<OneChunk> it(new OneChunk(mapper, chunk_bytes, chunks, std::move(*uffd)));
    const auto works = window::choose_mapper(mapper, it->own_, chunk_bytes);
    if (!works) return tl::make_unexpected(works.error());
    auto done = it->mapper_ == "module"     ? it->set_up_module(word)
                : it->mapper_ == "collapse" ? it->set_up_view(word)
                                            : it->set_up_slot(word);
    if (!done) return forward_error(std::move(done));
    return it;
  }

  const std::byte* address() const { return region_->address(); }
  window::Region& region() { return *region_; }
  window::AddressSpace& own() { return own_; }
  /// nullptr unless the mapper is "module".
  window::ModuleWindow* module() { return module_.get(); }

  bool show() { return show_chunk() == fault::Outcome::done; }
  bool hide() { return hide_chunk() == fault::Outcome::done; }

 private:
  OneChunk(const char* mapper, uint64_t chunk_bytes, uint32_t chunks, fault::Userfaultfd uffd)
      : mapper_(mapper),
        chunk_bytes_(chunk_bytes),
        chunks_(chunks),
        length_bytes_(chunks * chunk_bytes),
        own_(std::move(uffd)) {}

  fault::Outcome show_chunk() {
    if (module_) return module_->show(module_file_.number, 0, 0);
    if (mapper_ == "move") return window::move_in(*region_, {0, chunks_}, bytes_);
    if (mapper_ == "copy") return own_.uffd().copy(region_->address(), bytes_, length_bytes_, true);
    return memory_->has_huge_pages() ? window::show_huge_page(*region_, 0)
                                     : own_.uffd().show(region_->address(), length_bytes_);
  }

  fault::Outcome hide_chunk() {
    if (mapper_ == "move") return window::move_out(*region_, {0, chunks_}, bytes_);
    if (module_) {
      module_->hide(module_file_.number, 0, 1);
    } else {
      for (uint32_t i = 0; i < chunks_; ++i) window::drop_live_pages(*region_, i);
    }
    return fault::Outcome::done;
  }

  Status set_up_slot(uint64_t word) {
    auto pool = window::SlotPool::create(chunks_, chunk_bytes_);
    if (!pool) return forward_error(std::move(pool));
    pool_ = std::move(*pool);
    fill(pool_->address(0), word);
    if (auto done = reserve(window::Region::no_memory, MAP_PRIVATE); !done) return done;
    auto done = own_.uffd().register_range(region_->address(), length_bytes_, true);
    if (!done || mapper_ == "copy") return done;
    return own_.uffd().register_range(bytes_, length_bytes_);
  }

  Status set_up_view(uint64_t word) {
    auto memory = window::MemoryFile::create(length_bytes_, chunk_bytes_);
    if (!memory) return forward_error(std::move(memory));
    memory_ = std::move(*memory);
    fill(memory_->at(0), word);
    if (auto done = reserve(memory_->view_fd(), MAP_PRIVATE); !done) return done;
    return own_.uffd().register_view(region_->address(), length_bytes_);
  }

  Status set_up_module(uint64_t word) {
    auto module = window::ModuleWindow::create(1, chunk_bytes_);
    if (!module) return forward_error(std::move(module));
    module_ = std::move(*module);
    auto file = module_->add_file(1);
    if (!file) return forward_error(std::move(file));
    module_file_ = std::move(*file);
    fill(module_->slot_address(0), word);
    return reserve(module_file_.view.get(), MAP_SHARED);
  }

  // Before anybody watches the memory.
  void fill(std::byte* bytes, uint64_t word) {
    bytes_ = bytes;
    std::memset(bytes_, 0, length_bytes_);
    std::memcpy(bytes_, &word, sizeof word);
  }

  Status reserve(int memory_fd, int sharing) {
    auto region = window::Region::reserve(
        {.offset_bytes = 0, .length_bytes = length_bytes_, .file_size_bytes = length_bytes_},
        chunk_bytes_, own_, memory_fd, sharing);
    if (!region) return forward_error(std::move(region));
    region_ = std::move(*region);
    return {};
  }

  const std::string mapper_;
  const uint64_t chunk_bytes_;
  const uint32_t chunks_;
  const uint64_t length_bytes_;
  window::AddressSpace own_;
  std::unique_ptr<window::ModuleWindow> module_;
  window::ModuleFile module_file_;
  std::unique_ptr<window::MemoryFile> memory_;
  std::unique_ptr<window::SlotPool> pool_;
  std::unique_ptr<window::Region> region_;
  std::byte* bytes_ = nullptr;
};

}  // namespace weightpager
