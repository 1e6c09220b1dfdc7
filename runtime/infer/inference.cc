#include "runtime/infer/inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>

#include "pager/base/anonymous_memory.h"
#include "pager/base/assert.h"
#include "pager/base/memory_room.h"
#include "pager/base/units.h"
#include "pager/io/model_file.h"
#include "runtime/infer/backend.h"
#include "runtime/infer/block_use.h"
#include "runtime/network/weight_source.h"

namespace weightpager::infer {
namespace {

using network::Network;
using network::Piece;
using network::WeightSource;
using pipeline::Executor;
using pipeline::UnitCosts;
using pipeline::UnitTimes;

// The most memory that compiled kernels, the reader and the libraries' own buffers take.
constexpr uint64_t other_bytes_expected = 16 * MiB;
constexpr uint64_t stack_bytes_expected = 8 * MiB;

bool is_by_copy(const WindowRequest& request) {
  return request.blocks && request.blocks->assembly == Assembly::by_copy;
}

class StreamedInference final : public Inference, private pipeline::UnitWork {
 public:
  StreamedInference(const Network& network, WeightSource source, io::ModelFile file,
                    const InferenceOptions& options)
      : network_(network), source_(std::move(source)), file_(std::move(file)), options_(options) {}

  /// `operations`: those that were chosen, if any were.
  Status prepare(std::optional<plan::PlannedOperations> operations);

  Status run(std::span<const std::span<const float>> inputs) override;
  const memory::Activations& activations(size_t image) const override {
    WP_ASSERT(image < images_with_outputs_);
    return backend_->activations(image);
  }
  const pipeline::Timeline& times() const override { return executor_->times(); }
  std::vector<UnitCosts> layer_costs() const override;
  Result<budget::BlockedNetwork> blocked_network(std::span<const UnitCosts> layer_costs,
                                                 const budget::PerBlock& per_block) const override {
    return infer::blocked_network(source_, layer_costs, per_block);
  }
  Status set_window(const WindowRequest& request) override;
  const WindowUse& window() const override { return use_; }
  uint64_t window_bytes() const override {
    return executor_->window_bytes() + (is_assembled_by_copy_ ? use_.blocks->peak_bytes : 0);
  }
  uint64_t activation_bytes() const override { return backend_->activation_bytes(); }
  uint64_t scratch_bytes() const override { return backend_->scratch_bytes(); }
  DeviceMemoryUse device_memory() const override { return backend_->device_memory(); }
  uint64_t read_bytes() const override { return read_bytes_before_ + executor_->read_bytes(); }
  double reading_ns_per_byte() const override {
    const auto bytes = static_cast<double>(std::max<uint64_t>(executor_->read_bytes(), 1));
    return static_cast<double>(executor_->reading_processor_ns()) / bytes;
  }
  const char* reader_name() const override { return executor_->reader_name(); }
  bool is_direct() const override { return file_.is_direct(); }

 private:
  Result<WindowUse> use_for(const WindowRequest& asked) const;
  Status check_memory(const WindowUse& use, uint64_t beside_bytes) const;
  Status take_window(const WindowRequest& request, WindowUse use);
  Status take_in(uint32_t unit, std::span<std::byte> bytes) override;
  Status take_in_late(const Piece& piece, const std::byte* bytes);
  Status assemble_by_copy(uint32_t unit, std::span<const std::byte> bytes);
  const std::byte* bytes_of(uint32_t unit, const Piece& piece, const std::byte* bytes) const;
  Status compute_piece(const Piece& piece, const std::byte* bytes, bool is_new,
                       const pipeline::Meanwhile& meanwhile);
  Status compute(uint32_t unit, const std::byte* bytes,
                 const pipeline::Meanwhile& meanwhile) override;

  const Network network_;
  WeightSource source_;
  const io::ModelFile file_;
  const InferenceOptions options_;
  std::unique_ptr<Backend> backend_;
  WindowUse use_;
  uint64_t read_bytes_before_ = 0;  // in former windows
  size_t images_with_outputs_ = 0;
  // True if kernels compute from the memory that reads go to: then all threads that compute take
  // weights in together. If the driver did it, it would take one processor away, and the other
  // threads would wait for that processor's thread.
  bool takes_in_late_ = false;
  // Assembly::by_copy: blocks between their assembly, on the executor's thread, and the end of
  // their kernels. Two blocks of which one waits for the other have a place each.
  bool is_assembled_by_copy_ = false;
  std::array<AnonymousMemory, blocks_in_memory> assembled_;
  // By unit: reads that are finished and whose weights are not taken in yet.
  std::vector<std::atomic<uint32_t>> untaken_;
  // The executor's threads use everything above, so it is destroyed first.
  std::unique_ptr<Executor> executor_;
};

Status StreamedInference::prepare(std::optional<plan::PlannedOperations> operations) {
  auto use =
      options_.plan != nullptr ? use_plan(source_, *options_.plan) : use_for(options_.window);
  if (!use) return forward_error(std::move(use));
  const MayTake may_take = [&](uint64_t beside_bytes) { return check_memory(*use, beside_bytes); };
  auto backend = operations ? open_planned_backend(network_, source_, *std::move(operations),
                                                   options_.batch, may_take)
                 : options_.device == DeviceKind::cuda
                     ? open_cuda_backend(network_, source_, options_)
                     : open_cpu_backend(network_, source_, options_, may_take);
  if (!backend) return forward_error(std::move(backend));
  backend_ = std::move(*backend);
  if (options_.plan != nullptr) return take_window({}, *std::move(use));
  return take_window(options_.window, *std::move(use));
}

Result<WindowUse> StreamedInference::use_for(const WindowRequest& asked) const {
  WindowRequest request = asked;
  request.device = options_.device;
  return use_window(network_, source_, request);
}

// Checks the memory that the process will have taken once a pass has run, beyond what it has now.
Status StreamedInference::check_memory(const WindowUse& use, uint64_t beside_bytes) const {
  uint64_t window_bytes = use.rings.bytes();
  if (is_by_copy(options_.window)) window_bytes += use.blocks->peak_bytes;
  const bool is_preloaded =
      options_.plan == nullptr && options_.window.pipeline == pipeline::Pipeline::preload;
  for (const pipeline::UnitBytes& it : use.units) {
    if (it.is_pinned || is_preloaded) window_bytes += it.length_bytes;
  }
  // The images of the batch, and one image that is being scaled.
  const uint64_t input_bytes = (uint64_t{options_.batch} + 1) * network_.input.size_bytes();
  const uint64_t bytes =
      window_bytes + beside_bytes + input_bytes + other_bytes_expected + options_.promised_bytes;
  return check_room(
      {.what = source_.path() + ": a pass",
       .parts = fmt::format("weights {}, activations and what operations take beside them {}, "
                            "pictures {}",
                            format_size(window_bytes), format_size(beside_bytes),
                            format_size(input_bytes)),
       .bytes = bytes,
       // Rings are mapped twice, and each thread has a stack.
       .address_bytes = bytes + use.rings.bytes() +
                        static_cast<uint64_t>(options_.threads) * stack_bytes_expected},
      "make pictures smaller (--resolution, or `width=` and `height=` in the .cfg), or the batch "
      "or the window");
}

Status StreamedInference::set_window(const WindowRequest& request) {
  auto use = use_for(request);
  if (!use) return forward_error(std::move(use));
  return take_window(request, std::move(*use));
}

Status StreamedInference::take_window(const WindowRequest& request, WindowUse use) {
  const pipeline::Pipeline pipeline = request.pipeline;
  if (executor_ != nullptr) read_bytes_before_ = read_bytes();
  executor_.reset();
  source_.forget_pieces();
  use_ = std::move(use);
  const bool has_no_copies =
      pipeline == pipeline::Pipeline::two_stage || pipeline == pipeline::Pipeline::preload;
  is_assembled_by_copy_ = is_by_copy(request);
  assembled_ = {};
  takes_in_late_ = options_.device == DeviceKind::cpu && has_no_copies && !is_assembled_by_copy_;
  const bool may_overlay = request.uses_overlay && !use_.blocks;
  if (may_overlay && takes_in_late_ && pipeline == pipeline::Pipeline::two_stage) {
    add_arena_overlay(use_, source_, backend_->activations(0).layout());
  }
  const bool reads_across = options_.reads_across_inferences && !use_.blocks;
  const auto driver = takes_in_late_ ? pipeline::Driver::caller : pipeline::Driver::own_thread;
  untaken_ = std::vector<std::atomic<uint32_t>>(use_.units.size());
  // Packed weights have checksums, which find more changes.
  const auto watched = source_.is_packed() ? std::nullopt : std::optional(file_.identity());
  auto executor =
      Executor::make(use_.units,
                     {.schedule = {.pipeline = pipeline,
                                   .rings = use_.rings,
                                   .reads_across_inferences = reads_across,
                                   .units_under_way_max = use_.blocks ? blocks_in_memory : 0},
                      .driver = driver,
                      .fd = file_.fd(),
                      .file = watched,
                      .file_name = source_.path(),
                      .device_read_bytes = io::device_limits(file_.fd()).read_bytes,
                      .open_reader = options_.open_reader,
                      .beside_kernels = options_.beside_kernels},
                     *this, backend_->make_device());
  if (!executor) return forward_error(std::move(executor));
  executor_ = std::move(*executor);
  backend_->on_window_taken();
  return {};
}

Status StreamedInference::run(std::span<const std::span<const float>> inputs) {
  WP_ASSERT(!inputs.empty() && inputs.size() <= options_.batch);
  images_with_outputs_ = 0;
  for (const std::span<const float> input : inputs) {
    WP_ASSERT(input.size() == network_.input.elements());
  }
  if (Status begun = backend_->begin(inputs); !begun) return begun;
  if (Status ran = executor_->run(); !ran) {
    // Nothing is in flight any more, and all weights will be read again.
    for (auto& reads : untaken_) reads = 0;
    return ran;
  }
  if (Status ended = backend_->end(); !ended) return ended;
  images_with_outputs_ = inputs.size();
  return {};
}

Status StreamedInference::take_in(uint32_t unit, std::span<std::byte> bytes) {
  if (takes_in_late_) {
    ++untaken_[unit];
    return {};
  }
  for (const Piece& piece : use_.pieces_of(unit)) {
    const std::byte* const read = bytes_of(unit, piece, bytes.data());
    if (read == nullptr) continue;
    auto taken = source_.take_in(piece, bytes.subspan(static_cast<size_t>(read - bytes.data())));
    if (!taken) return forward_error(std::move(taken));
  }
  if (is_assembled_by_copy_) return assemble_by_copy(unit, bytes);
  return {};
}

Status StreamedInference::take_in_late(const Piece& piece, const std::byte* bytes) {
  // The bytes lie in the window's own memory, which may be changed.
  auto* const read = const_cast<std::byte*>(bytes);
  auto taken = source_.take_in(piece, {read, source_.range(piece).length_bytes}, options_.threads);
  if (!taken) return forward_error(std::move(taken));
  return {};
}

// Takes memory for the unit's layers anew, and copies each layer's weights there.
Status StreamedInference::assemble_by_copy(uint32_t unit, std::span<const std::byte> bytes) {
  auto memory = AnonymousMemory::make(bytes.size(), "a block that is assembled", "");
  if (!memory) return forward_error(std::move(memory));
  for (const Piece& piece : use_.pieces_of(unit)) {
    const std::byte* const from = bytes_of(unit, piece, bytes.data());
    if (from == nullptr) continue;
    std::memcpy(memory->at(static_cast<uint64_t>(from - bytes.data())), from,
                source_.range(piece).needed_bytes);
  }
  assembled_[unit % assembled_.size()] = std::move(*memory);
  return {};
}

Status StreamedInference::compute(uint32_t unit, const std::byte* bytes,
                                  const pipeline::Meanwhile& meanwhile) {
  const bool is_new = untaken_[unit] > 0;
  const std::byte* const assembled = assembled_[unit % assembled_.size()].at(0);
  for (const Piece& piece : use_.pieces_of(unit)) {
    const std::byte* const read = bytes_of(unit, piece, assembled ? assembled : bytes);
    if (Status computed = compute_piece(piece, read, is_new, meanwhile); !computed) return computed;
  }
  if (is_new) --untaken_[unit];
  assembled_[unit % assembled_.size()] = {};
  return {};
}

// Where the piece's range begins in its unit; nullptr for a layer without weights.
const std::byte* StreamedInference::bytes_of(uint32_t unit, const Piece& piece,
                                             const std::byte* bytes) const {
  if (bytes == nullptr || piece.end_channel == 0) return nullptr;
  return bytes + (source_.range(piece).offset_bytes - use_.units[unit].offset_bytes);
}

Status StreamedInference::compute_piece(const Piece& piece, const std::byte* bytes, bool is_new,
                                        const pipeline::Meanwhile& meanwhile) {
  if (bytes == nullptr) {
    return backend_->compute(piece.layer, backend_->all_channels(piece.layer), nullptr, meanwhile);
  }
  if (is_new && !source_.is_packed()) {
    if (Status taken = take_in_late(piece, bytes); !taken) return taken;
  }
  Status computed = backend_->compute(piece.layer, {piece.first_channel, piece.end_channel},
                                      source_.weights_in(piece, bytes), meanwhile);
  // Packed weights stay as they were read and are only checked. That is faster now, because the
  // caches have them. If they are wrong, the run fails and its results are dropped.
  if (computed && is_new && source_.is_packed()) return take_in_late(piece, bytes);
  return computed;
}

std::vector<UnitCosts> StreamedInference::layer_costs() const {
  std::vector<UnitCosts> costs(network_.layers.size());
  for (size_t unit = 0; unit < use_.units.size(); ++unit) {
    const UnitTimes& times = executor_->times().units[unit];
    UnitCosts& layer = costs[use_.pieces_of(unit).front().layer];
    layer.size_bytes += use_.units[unit].length_bytes;
    layer.read_ns += times.read.finish_ns - times.read.start_ns;
    layer.copy_ns += times.copy.finish_ns - times.copy.start_ns;
    layer.kernel_ns += times.kernel.finish_ns - times.kernel.start_ns;
  }
  return costs;
}

// Checks the part of a plan that only the operations know: where layers can be cut.
Status check_pieces(const plan::JointPlan& plan, const plan::PlannedOperations& operations) {
  for (const Piece& piece : plan.pieces) {
    const bool has_weights = piece.end_channel > 0;
    if (has_weights && !operations.is_tile_boundary(piece.layer, piece.end_channel)) {
      return fail(fmt::format("the plan cuts layer {} at channel {}, where it cannot be cut",
                              piece.layer, piece.end_channel),
                  "make it again: weightpager plan NET.cfg --budget SIZE -o FILE");
    }
  }
  return {};
}

}  // namespace

std::vector<uint32_t> output_layers(const Network& network) {
  std::vector<uint32_t> layers;
  for (uint32_t i = 0; i < network.layers.size(); ++i) {
    const bool is_last = i + 1 == network.layers.size();
    const bool is_yolo = std::holds_alternative<network::Yolo>(network.layers[i].operation);
    if (is_last || is_yolo) layers.push_back(i);
  }
  return layers;
}

Result<std::unique_ptr<Inference>> Inference::open(const Network& network,
                                                   const std::string& weights_path,
                                                   const InferenceOptions& options) {
  auto file = io::ModelFile::open(weights_path);
  if (!file) return forward_error(std::move(file));
  std::optional<plan::PlannedOperations> operations;
  network::WeightForms forms;
  const auto& choices = options.plan != nullptr ? options.plan->choices : options.choices;
  if (!choices.empty()) {
    auto made = plan::PlannedOperations::make(network, choices, options.threads);
    if (!made) return forward_error(std::move(made));
    forms = made->weight_forms();
    if (options.plan != nullptr) {
      Status fits = check_pieces(*options.plan, *made);
      if (!fits) return forward_error(std::move(fits));
    }
    operations = std::move(*made);
  }
  auto source = WeightSource::open(weights_path, network, forms);
  if (!source) return forward_error(std::move(source));
  if (options.plan != nullptr && !source->is_packed()) {
    return fail(weights_path + ": a plan is for packed weights",
                "weightpager model pack NET.cfg NET.weights --plan PLAN.json -o FILE, and give "
                "FILE");
  }
  // Biases come from `source` and weights from `file`, which were opened one after the other: both
  // must be the same file.
  const auto again = io::ModelFile::open(weights_path);
  if (!again || !file->identity().looks_like(again->identity())) {
    return fail(weights_path + ": was replaced while it was opened", "start again");
  }
  auto it =
      std::make_unique<StreamedInference>(network, std::move(*source), std::move(*file), options);
  Status prepared = it->prepare(std::move(operations));
  if (!prepared) return forward_error(std::move(prepared));
  return it;
}

}  // namespace weightpager::infer
