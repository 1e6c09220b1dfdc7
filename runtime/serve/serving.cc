// See serving.h.
#include "runtime/serve/serving.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <future>
#include <utility>

#include "pager/base/thread.h"
#include "pager/base/units.h"
#include "pager/io/open_reader.h"
#include "pager/telemetry/telemetry.h"
#include "runtime/budget/disk_arbiter.h"
#include "runtime/infer/layer_measurement.h"

namespace weightpager::serve {
namespace {

using infer::Inference;
using infer::WindowRequest;
using pipeline::Pipeline;
using pipeline::UnitCosts;
using telemetry::monotonic_ns;

/// Inferences in which layers are measured, after a first one that does not count.
constexpr int measured_inferences = 3;
constexpr uint64_t tile_bytes_max = 2 * MiB;
/// The time of a read besides its bytes.
constexpr uint64_t read_ns_each = 50'000;
constexpr budget::PerBlock per_block = {.read_ns = read_ns_each};
/// Of the time to find a network's blocks, at the start, for all budgets.
constexpr double block_search_s = 5;

Status stay_on(const std::vector<int>& processors) {
  if (processors.empty()) return {};
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  for (const int processor : processors) CPU_SET(processor, &allowed);
  if (sched_setaffinity(0, sizeof(allowed), &allowed) == 0) return {};
  return fail(fmt::format("processors {}: {}", fmt::join(processors, ", "), std::strerror(errno)),
              "this process may run on others only: see `nproc` and `taskset -p $$`", errno);
}

budget::ArbiterSettings arbiter_settings_for(const std::vector<NetworkRequest>& requests) {
  std::vector<uint64_t> periods_ns;
  std::vector<double> urgencies;
  for (const NetworkRequest& it : requests) {
    periods_ns.push_back(it.period_ns);
    urgencies.push_back(it.urgency);
  }
  return budget::arbiter_settings(periods_ns, urgencies);
}

std::chrono::steady_clock::time_point time_of(uint64_t monotonic) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(monotonic));
}

}  // namespace

/// A network, and the data that its thread and other threads have about it.
struct Serving::Member {
  uint32_t number = 0;
  NetworkRequest request;
  std::vector<float> input;
  std::unique_ptr<Inference> inference;  // used by its own thread only
  // Known before any network is served.
  std::vector<UnitCosts> layer_costs;
  double reading_ns_per_byte = 0;
  std::optional<NetworkDemand> demand;
  uint64_t fixed_bytes = 0;
  // Guarded by the mutex.
  uint64_t share_bytes = 0;
  uint64_t held_bytes = 0;
  uint64_t read_bytes = 0;
  uint64_t inferences = 0;
  std::deque<ServedInference> latest;
  std::thread thread;
};

Serving::Serving(const ServingOptions& options, const std::vector<NetworkRequest>& requests)
    : options_(options),
      gate_(static_cast<uint32_t>(requests.size()), arbiter_settings_for(requests)) {}

Result<std::unique_ptr<Serving>> Serving::start(std::vector<NetworkRequest> requests,
                                                const ServingOptions& options) {
  std::unique_ptr<Serving> serving(new Serving(options, requests));
  if (Status opened = serving->open(std::move(requests)); !opened) {
    return forward_error(std::move(opened));
  }
  return serving;
}

Serving::~Serving() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  changed_.wake_all();
  for (const auto& member : members_) {
    if (member->thread.joinable()) member->thread.join();
  }
}

// Networks are measured one after the other, while no other network computes or reads.
Status Serving::open(std::vector<NetworkRequest> requests) {
  for (NetworkRequest& request : requests) {
    if (request.network.folded_bytes() == 0) {
      return fail(request.name + ": has no weights, so there is no memory to divide",
                  "leave it out: it takes none of the budget for weights");
    }
    auto member = std::make_unique<Member>();
    member->number = static_cast<uint32_t>(members_.size());
    member->request = std::move(request);
    Member& it = *members_.emplace_back(std::move(member));
    auto thread = start_thread_that_opens("wp-network", [this, &it](std::promise<Status>& opened) {
      Status measured = measure(it);
      const bool is_fine = measured.has_value();
      opened.set_value(std::move(measured));
      if (is_fine) serve(it);
      it.inference.reset();
    });
    if (!thread) return forward_error(std::move(thread));
    it.thread = std::move(*thread);
  }
  const auto shares = shares_of(options_.budget_bytes);
  if (!shares) return tl::make_unexpected(shares.error());
  {
    const MutexLock lock(mutex_);
    budget_bytes_ = options_.budget_bytes;
    promise(*shares);
    has_begun_ = true;
  }
  changed_.wake_all();
  return {};
}

// Measures in about the least window, so that the measurement itself exceeds no budget: the
// sequential pipeline has two rings, each for one tile.
Status Serving::measure(Member& member) {
  if (Status stays = stay_on(member.request.processors); !stays) return stays;
  // If networks share processors, each turn begins with caches that another network has filled, so
  // long turns are better. But a network with a period is due soon after it wakes.
  if (member.request.period_ns == 0) take_long_turns();
  const network::Network& network = member.request.network;
  const uint64_t tile_bytes = std::min(tile_bytes_max, network.largest_folded_bytes()) / 2;
  infer::InferenceOptions options = {
      .window = {.pipeline = Pipeline::sequential, .tile_bytes_max = tile_bytes},
      .choices = member.request.choices,
      .threads = member.request.threads};
  // The sequential pipeline has a thread that reads, so it cannot use the gate. It need not,
  // because no other network reads meanwhile.
  options.open_reader = [this, &member](const io::ReaderOptions& reader_options) {
    const bool is_measuring = reader_options.watched_fd >= 0;
    return is_measuring ? io::open_best_reader(reader_options)
                        : gate_.open_reader(member.number, reader_options);
  };
  auto inference = Inference::open(network, member.request.weights_path, options);
  if (!inference) return forward_error(std::move(inference));
  member.inference = std::move(*inference);
  member.input = infer::some_input(network);
  auto costs = infer::measure_layers(*member.inference, *member.inference, member.input,
                                     measured_inferences);
  if (!costs) return forward_error(std::move(costs));
  member.layer_costs = std::move(*costs);
  // Networks that are slow for their size lose less by reading than fast ones.
  member.reading_ns_per_byte = member.inference->reading_ns_per_byte();
  auto demand = demand_by_costs(member);
  if (!demand) return forward_error(std::move(demand));
  member.demand = std::move(*demand);
  budget::Claim& claim = member.demand->claim;
  claim.urgency = member.request.urgency;
  claim.weight =
      delay_weight(options_.goal, claim.urgency, member.request.period_ns, claim.latency_ns);
  member.fixed_bytes = member.inference->activation_bytes() + member.inference->scratch_bytes();
  {
    const MutexLock lock(mutex_);
    member.held_bytes = std::max(member.inference->window_bytes(), claim.least_bytes);
    note_peak();
    measuring_peak_bytes_ = peak_bytes_;
  }
  return use_window(member, claim.least_bytes);
}

// Takes the costs of blocks out of those of layers, each of which was read by itself.
Result<NetworkDemand> Serving::demand_by_costs(Member& member) const {
  const NetworkRequest& request = member.request;
  if (!options_.is_by_blocks) {
    return demand_of(request.network, request.name, request.choices, member.layer_costs,
                     {.tile_bytes_max = tile_bytes_max,
                      .read_ns_per_tile = read_ns_each,
                      .kernel_ns_per_tile = 20'000,
                      .processor_ns_per_byte = member.reading_ns_per_byte});
  }
  for (UnitCosts& it : member.layer_costs) it.read_ns -= std::min(it.read_ns, read_ns_each);
  const auto costs = member.inference->blocked_network(member.layer_costs, per_block);
  if (!costs) return tl::make_unexpected(costs.error());
  return demand_in_blocks(request.network, request.name, *costs, TimeLimit(block_search_s));
}

void Serving::serve(Member& member) {
  uint64_t due_ns = 0;
  Status outcome;
  while (outcome) {
    // 1. Wait until an inference is due, the share changes, or serving ends.
    if (!wait_until_due(member, due_ns)) return;

    // 2. Take the window that the share allows, if others have given the memory back.
    outcome = follow_share(member);

    // 3. Run one inference, and set when the next one is due. Inferences that became due meanwhile
    // are skipped.
    const uint64_t now_ns = monotonic_ns();
    if (!outcome || now_ns < due_ns) continue;
    outcome = infer_once(member);
    const uint64_t period_ns = member.request.period_ns;
    due_ns = period_ns == 0 ? 0 : std::max(due_ns, now_ns - now_ns % period_ns) + period_ns;
  }
  {
    const MutexLock lock(mutex_);
    if (outcome_) outcome_ = std::move(outcome);
  }
  changed_.wake_all();
}

// Returns false when serving ends.
bool Serving::wait_until_due(Member& member, uint64_t& due_ns) {
  const MutexLock lock(mutex_);
  while (!has_begun_ && !is_stopping_) changed_.wait(mutex_);
  if (due_ns == 0) due_ns = monotonic_ns();
  while (!is_stopping_ && !window_to_take(member)) {
    if (!changed_.wait_until(mutex_, time_of(due_ns))) break;
  }
  return !is_stopping_;
}

// The window that the network may take now. It may grow only into memory that no other network
// holds.
std::optional<uint64_t> Serving::window_to_take(Member& member) {
  if (member.share_bytes == member.held_bytes) return {};
  const bool shrinks = member.share_bytes < member.held_bytes;
  const uint64_t others_bytes = held_bytes() - member.held_bytes;
  if (!shrinks && fixed_bytes() + others_bytes + member.share_bytes > budget_bytes_) return {};
  return member.share_bytes;
}

Status Serving::follow_share(Member& member) {
  uint64_t window_bytes = 0;
  {
    const MutexLock lock(mutex_);
    const auto wanted = window_to_take(member);
    if (!wanted) return {};
    window_bytes = *wanted;
    member.held_bytes = std::max(member.held_bytes, window_bytes);
    note_peak();
  }
  return use_window(member, window_bytes);
}

Status Serving::use_window(Member& member, uint64_t window_bytes) {
  WindowRequest request = {.pipeline = Pipeline::two_stage,
                           .window_bytes = window_bytes,
                           .layer_costs = member.layer_costs};
  if (options_.is_by_blocks) request.blocks = {.per_block = per_block};
  if (Status set = member.inference->set_window(request); !set) return set;
  gate_.set_units(member.number,
                  budget::latest_starts_before_deadline(member.inference->window().costs));
  {
    const MutexLock lock(mutex_);
    member.held_bytes = window_bytes;
  }
  changed_.wake_all();
  return {};
}

Status Serving::infer_once(Member& member) {
  ServedInference it = {.start_ns = monotonic_ns()};
  uint64_t wanted_ns = member.request.period_ns;
  {
    const MutexLock lock(mutex_);
    it.window_bytes = member.held_bytes;
    if (wanted_ns == 0) {
      const budget::StepFunction& delays = member.demand->delay_steps;
      const uint64_t planned_ns = delays.delay_ns(std::max(it.window_bytes, delays.least_bytes()));
      wanted_ns = static_cast<uint64_t>(static_cast<double>(planned_ns) / member.request.urgency);
    }
  }
  gate_.begin_inference(member.number, static_cast<int64_t>(it.start_ns + wanted_ns), wanted_ns);
  const std::span<const float> input = member.input;
  if (Status ran = member.inference->run({&input, 1}); !ran) return ran;
  it.finish_ns = monotonic_ns();
  if (options_.on_inference) options_.on_inference(member.number, *member.inference);
  const MutexLock lock(mutex_);
  member.read_bytes = member.inference->read_bytes();
  ++member.inferences;
  member.latest.push_back(it);
  if (member.latest.size() > inferences_kept_max) member.latest.pop_front();
  return {};
}

// ---- Shares ----

uint64_t Serving::held_bytes() const {
  uint64_t bytes = 0;
  for (const auto& it : members_) bytes += it->held_bytes;
  return bytes;
}

uint64_t Serving::fixed_bytes() const {
  uint64_t bytes = 0;
  for (const auto& it : members_) bytes += it->fixed_bytes;
  return bytes;
}

uint64_t Serving::least_budget_bytes() const {
  uint64_t bytes = fixed_bytes();
  for (const auto& it : members_) bytes += it->demand->claim.least_bytes;
  return std::max(bytes, measuring_peak_bytes_);
}

void Serving::note_peak() { peak_bytes_ = std::max(peak_bytes_, fixed_bytes() + held_bytes()); }

Result<budget::Shares> Serving::shares_of(uint64_t budget_bytes) const {
  std::vector<budget::Claim> claims;
  std::vector<budget::StepFunction> step_functions;
  for (const auto& it : members_) {
    claims.push_back(it->demand->claim);
    step_functions.push_back(it->demand->delay_steps);
  }
  if (budget_bytes < least_budget_bytes()) {
    const auto greatest = std::max_element(
        claims.begin(), claims.end(),
        [](const auto& a, const auto& b) { return a.least_bytes < b.least_bytes; });
    return fail(
        fmt::format("a budget of {} is too small: these networks take {} at least, {} of it for "
                    "activations and scratch memory and {} for the window of {} ({})",
                    format_size(budget_bytes), format_size(least_budget_bytes()),
                    format_size(fixed_bytes()), format_size(greatest->least_bytes), greatest->name,
                    greatest->forced_by),
        fmt::format("give --budget {}MiB or more, or serve fewer networks",
                    (least_budget_bytes() + MiB - 1) / MiB));
  }
  auto joint = budget::share_jointly(claims, step_functions, budget_bytes - fixed_bytes(),
                                     goal_of_delays(options_.goal));
  if (!joint) return forward_error(std::move(joint));
  for (uint64_t& share : joint->shares) share = round_down(share, os_page_bytes);
  return std::move(joint->shares);
}

void Serving::promise(const budget::Shares& shares) {
  for (const auto& it : members_) it->share_bytes = shares[it->number];
}

Result<uint64_t> Serving::set_budget(uint64_t budget_bytes) {
  const uint64_t started_ns = monotonic_ns();
  const auto shares = shares_of(budget_bytes);
  if (!shares) return tl::make_unexpected(shares.error());
  {
    const MutexLock lock(mutex_);
    budget_bytes_ = budget_bytes;
    promise(*shares);
  }
  changed_.wake_all();
  return monotonic_ns() - started_ns;
}

Status Serving::check_budget(uint64_t budget_bytes) const {
  auto shares = shares_of(budget_bytes);
  if (!shares) return forward_error(std::move(shares));
  return {};
}

Status Serving::wait(uint64_t timeout_ns) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
  const MutexLock lock(mutex_);
  while (outcome_ && changed_.wait_until(mutex_, end)) {
  }
  return outcome_;
}

ServingState Serving::state() const {
  const MutexLock lock(mutex_);
  ServingState state = {.budget_bytes = budget_bytes_,
                        .least_budget_bytes = least_budget_bytes(),
                        .peak_bytes = peak_bytes_};
  for (const auto& member : members_) {
    const Member& it = *member;
    const budget::StepFunction& delays = it.demand->delay_steps;
    state.networks.push_back({.name = it.request.name,
                              .period_ns = it.request.period_ns,
                              .weights_bytes = it.demand->claim.model_bytes,
                              .least_window_bytes = it.demand->claim.least_bytes,
                              .fixed_bytes = it.fixed_bytes,
                              .share_bytes = it.share_bytes,
                              .held_bytes = it.held_bytes,
                              .read_bytes = it.read_bytes,
                              .reading_ns_per_byte = it.reading_ns_per_byte,
                              .in_memory_ns = it.demand->claim.latency_ns,
                              .planned_ns = delays.delay_ns(it.share_bytes),
                              .inferences = it.inferences});
  }
  return state;
}

std::vector<ServedInference> Serving::inferences(uint32_t network) const {
  const MutexLock lock(mutex_);
  const auto& latest = members_[network]->latest;
  return {latest.begin(), latest.end()};
}

}  // namespace weightpager::serve
