// A pager's answers to the requests of docs/reference/control.md.
//
// Most facts are read from counters, at no cost to the pager. Facts that only the pager's thread
// knows (files, states of chunks) are asked for by commands. However many clients ask, these
// commands take at most a fiftieth of that thread's time. For one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pager/control/memory_blocks.h"
#include "pager/control/request.h"
#include "pager/pager.h"
#include "pager/telemetry/event_ring.h"

namespace weightpager::control {

class PagerAnswers {
 public:
  /// Neither is owned; both outlive the object.
  PagerAnswers(Pager& pager, const telemetry::Telemetry& telemetry, const char* kind = "pager");
  ~PagerAnswers() { end_trace(); }

  /// Ends the trace of the client that has one, if any. The pager records no events after that.
  void end_trace();

  /// Returns one line, without its end. Throws only if memory runs out.
  std::string answer(std::string_view line);

 private:
  using Json = nlohmann::ordered_json;

  Result<Json> carry_out(const ControlRequest& request);
  Result<Json> hello(const ControlRequest& request);
  Result<Json> stat(const ControlRequest& request);
  Result<Json> histograms(const ControlRequest& request);
  Result<Json> residency(const ControlRequest& request);
  Result<Json> metrics(const ControlRequest& request);
  Result<Json> trace(const ControlRequest& request);
  Result<Json> change(const ControlRequest& request);
  Result<Json> set_window(const std::string& text);
  Result<Json> set_policy(const std::string& name);
  Result<Json> pin(const ControlRequest& request, const std::string& text);
  Result<Json> evict(const ControlRequest& request, const std::string& text);
  Result<Json> drop(const std::string& what);
  Json eviction_json(uint64_t resident_bytes_before, uint32_t evicted_chunks) const;

  Json memory_json();

  void look_at_files();
  void look_at_chunks();
  Result<const FileView*> model_meant(const ControlRequest& request);
  Result<std::vector<window::ChunkId>> chunks_of_layers(const ControlRequest& request,
                                                        const std::string& text,
                                                        const std::string& key);
  std::span<const ChunkView> chunks_of(const FileView& file) const;
  std::vector<MemoryBlock> blocks_of(const FileView& file) const;
  std::vector<MemoryBlock> all_blocks();
  std::string policy_text() const;
  /// Index into files_, or files_.size().
  size_t file_of(window::ChunkId chunk) const;

  Pager& pager_;
  const char* const kind_;  // "pager", or "server" of one that serves other processes
  const telemetry::Telemetry& telemetry_;
  std::vector<FileView> files_;
  std::vector<ChunkView> chunks_;
  uint64_t files_seen_ns_ = 0;
  uint64_t chunks_seen_ns_ = 0;
  uint64_t looking_took_ns_ = 0;
  uint64_t changed_ns_ = 0;
  std::string kept_text_ = "none";  // the layers that somebody has asked to pin
  std::unique_ptr<telemetry::EventRing> events_;
  uint64_t traces_ = 0;  // begun so far
};

}  // namespace weightpager::control
