// Finds out what a model is, where it lies, and how fast it can be read from there. The reader, the
// sizes and the kind of memory are those of a run, but nothing is computed.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include "pager/base/units.h"
#include "pager/io/reader.h"
#include "pager/model/model.h"
#include "pager/model/recognise.h"
#include "tools/commands/doctor/doctor_facts.h"
#include "tools/probes/huge_memory.h"
#include "tools/probes/mount_of.h"

namespace weightpager::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds measured_time_max{1500};

std::unique_ptr<io::Reader> open_reader(const io::DeviceLimits& device, uint32_t reads_max) {
  io::ReaderOptions options;
  options.reads_max = reads_max;
  options.read_bytes_max = chunk_bytes_max;
  options.device_read_bytes = device.read_bytes;
  auto reader = io::open_uring_reader(options);
  if (!reader) reader = io::open_pread_reader(options);
  return reader ? std::move(*reader) : nullptr;
}

/// The model's chunks, file after file.
class ChunkList {
 public:
  explicit ChunkList(const std::vector<io::ModelFile>& files) : files_(files) {}

  /// Points `read` at the next chunk; false when there is none.
  bool next(io::Read& read) {
    while (file_ < files_.size() && offset_bytes_ >= files_[file_].size_bytes()) {
      file_++;
      offset_bytes_ = 0;
    }
    if (file_ == files_.size()) return false;
    read.fd = files_[file_].fd();
    read.offset_bytes = offset_bytes_;
    read.length_bytes = chunk_bytes_max;
    offset_bytes_ += chunk_bytes_max;
    return true;
  }

 private:
  const std::vector<io::ModelFile>& files_;
  size_t file_ = 0;
  uint64_t offset_bytes_ = 0;
};

/// Reads until the time is up or the model has been read once.
ReadingFacts measure_reading(const std::vector<io::ModelFile>& files,
                             const io::DeviceLimits& device) {
  ReadingFacts facts;
  const auto chunks = static_cast<uint32_t>(
      std::max<uint64_t>(4, uint64_t{device.queue_depth} * device.read_bytes / chunk_bytes_max));
  const auto memory = HugeMemory::create(chunks);
  if (!memory) return {.problem = memory.error()};
  facts.buffer_bytes = uint64_t{chunks} * chunk_bytes_max;
  facts.huge_bytes = memory->huge_bytes();
  const auto reader = open_reader(device, chunks);
  if (!reader)
    return {.problem = Error{"no reader works here", "raise `ulimit -u` and `ulimit -n`"}};
  facts.reader = reader->name();

  ChunkList list(files);
  const auto started = Clock::now();
  const auto start_read = [&](uint64_t slot) {
    if (Clock::now() - started > measured_time_max) return;
    io::Read read{.tag = slot, .buffer = memory->chunk(static_cast<uint32_t>(slot))};
    if (list.next(read)) reader->start(read);
  };
  for (uint32_t slot = 0; slot < chunks; slot++) start_read(slot);
  while (reader->reads_in_flight() > 0) {
    for (const io::Completion& done : reader->wait(-1).completions) {
      if (done.error_number != 0 && !facts.problem) {
        facts.problem = Error{fmt::format("reading failed: {}", std::strerror(done.error_number)),
                              "sudo dmesg", done.error_number};
      }
      facts.read_bytes += done.length_bytes;
      start_read(done.tag);
    }
  }
  facts.elapsed_ns = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - started).count());
  return facts;
}

Result<std::vector<io::ModelFile>> open_files(const model::Model& shown) {
  std::vector<io::ModelFile> files;
  for (const model::File& file : shown.files) {
    auto opened = io::ModelFile::open(file.path);
    if (!opened) return forward_error(std::move(opened));
    files.push_back(std::move(*opened));
  }
  return files;
}

}  // namespace

Result<ModelFacts> collect_model_facts(const std::string& path) {
  const auto shown = model::open_model_to_page(path);
  if (!shown) return tl::make_unexpected(shown.error());
  auto files = open_files(*shown);
  if (!files) return forward_error(std::move(files));

  ModelFacts facts;
  facts.path = path;
  facts.format = model::format_name(shown->format);
  facts.architecture = shown->architecture;
  facts.files = shown->files.size();
  facts.layers = shown->layers.size();
  facts.tensors = shown->tensors.size();
  facts.is_found_by_name = model::is_model_file(path, {});
  for (const model::Layer& layer : shown->layers) {
    facts.largest_layer_bytes = std::max(facts.largest_layer_bytes, layer.size_bytes);
  }
  for (size_t index = 0; index < files->size(); index++) {
    const io::ModelFile& file = (*files)[index];
    facts.size_bytes += file.size_bytes();
    if (file.is_direct()) {
      facts.alignment_bytes = std::max(facts.alignment_bytes, file.alignment_bytes());
    } else if (facts.cached_file.empty()) {
      facts.cached_file = shown->files[index].path;
    }
  }
  const Mount mount = mount_of(files->front().fd());
  facts.filesystem = mount.filesystem;
  facts.source = mount.source;
  facts.device = io::device_limits(files->front().fd());
  facts.reading = measure_reading(*files, facts.device);
  return facts;
}

}  // namespace weightpager::tools
