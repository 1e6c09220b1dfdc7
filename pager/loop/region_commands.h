// What engines and guests ask of the pager's thread: files, regions, advice, questions.
//
// The work of the commands that pager.h describes, done between two faults. This part may allocate:
// it runs when an engine maps, unmaps or advises, not when it computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pager/base/result.h"
#include "pager/base/span.h"
#include "pager/loop/address_spaces.h"
#include "pager/loop/chunk_mover.h"
#include "pager/loop/file_reads.h"
#include "pager/loop/pager_options.h"
#include "pager/loop/paging_service.h"

namespace weightpager {

class RegionCommands {
 public:
  RegionCommands(const PagerOptions& options, const LoopParts& parts, ChunkMover& chunks,
                 FileReads& reads, AddressSpaces& spaces);

  Result<std::byte*> add_region(const RegionRequest& request);
  Result<std::byte*> add_spilled_memory(const SpilledMemoryRequest& request);
  void remove(const window::AddressSpace& space, std::byte* address, uint64_t length_bytes);
  void advise(const window::AddressSpace& space, std::byte* address, uint64_t length_bytes,
              Advice advice);
  void protect(std::byte* address, uint64_t length_bytes, bool is_accessible);
  std::string file_link(const std::byte* address) const;
  std::vector<Span> written_spans();
  void residency(const std::byte* address, uint64_t length_bytes, unsigned char* pages) const;

  Result<const ServedFile*> keep_file(const RegionRequest& request);
  std::string link_if_changed(const ServedFile* file) const;
  void forsake_file(const ServedFile* file);
  Status add_guest_region(window::AddressSpace& guest, const ServedFile* file,
                          const window::Extent& extent, std::byte* address);
  void remove_guest(window::AddressSpace* guest);

 private:
  Result<ServedFile*> serve_file(const RegionRequest& request);
  Result<ServedFile*> serve_anew(const RegionRequest& request, io::ModelFile file);
  ServedFile& take_in(std::unique_ptr<ServedFile> served);
  ServedFile& kept_file(const ServedFile* file) const;
  void show_in(ServedFile& served, std::unique_ptr<window::Region> region);
  void remove_pages(const ServedRegion& of, uint32_t index, uint32_t first_page, uint32_t count);
  void give_up(const ServedFile& served, window::ChunkId chunk);
  void discard_written(const ServedRegion& of, const Span& part);
  void drop_unused_files();

  const PagerOptions& options_;
  const LoopParts parts_;
  ChunkMover& chunks_;
  FileReads& reads_;
  AddressSpaces& spaces_;
};

}  // namespace weightpager
