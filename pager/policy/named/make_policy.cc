#include "pager/policy/named/make_policy.h"

#include <algorithm>
#include <array>
#include <string>

#include "pager/base/assert.h"
#include "pager/policy/baselines/belady.h"
#include "pager/policy/baselines/demand_paging.h"
#include "pager/policy/baselines/lru.h"
#include "pager/policy/baselines/pieces_ahead.h"
#include "pager/policy/baselines/readahead.h"
#include "pager/policy/baselines/whole_ring.h"
#include "pager/policy/expert_policy.h"
#include "pager/policy/learned.h"
#include "pager/policy/pin_stream.h"

namespace weightpager::policy {
namespace {

template <typename Kind>
std::unique_ptr<Policy> make(const ChunkTable& table, const Settings& settings,
                             std::span<const ChunkId> /*future*/) {
  return std::make_unique<Kind>(table, settings);
}

template <CutOrder cut>
std::unique_ptr<Policy> make_pieces_ahead(const ChunkTable& table, const Settings& settings,
                                          std::span<const ChunkId> /*future*/) {
  return std::make_unique<PiecesAhead>(table, settings, cut);
}

std::unique_ptr<Policy> make_belady(const ChunkTable& table, const Settings& settings,
                                    std::span<const ChunkId> future) {
  return std::make_unique<Belady>(table, settings, future);
}

// From the simplest to the bound. A row that moves gets another number: raise telemetry_version.
constexpr auto policies = std::to_array<NamedPolicy>({
    {"demand", "reads what is touched; the clock says who goes", make<DemandPaging>},
    {"lru", "reads what is touched; least recently used goes", make<Lru>},
    {"readahead", "as an operating system: reads on in the file, ever further", make<Readahead>},
    {"next-layer", "reads the next layer while one computes", make_pieces_ahead<cut_by_layers>},
    {"double-buffer", "two halves of the window in turn", make_pieces_ahead<cut_by_half_windows>},
    {"ring", "reads ahead as far as the window allows, keeps nothing", make<WholeRing>},
    {"pin-stream", "keeps a share of every layer, streams the rest", make<PinStream>},
    {"expert", "pin-stream, with a mixture's experts kept by use", make<ExpertPolicy>},
    {learning_policy, "expert, with pins where the engine computes shortest", make<Learned>},
    {"belady", "knows the future: the fewest reads there can be", make_belady, true},
});

const NamedPolicy* find(std::string_view name) {
  const auto found = std::find_if(policies.begin(), policies.end(),
                                  [&](const NamedPolicy& it) { return it.name == name; });
  return found == policies.end() ? nullptr : &*found;
}

}  // namespace

std::span<const NamedPolicy> named_policies() { return policies; }

uint64_t policy_number(std::string_view name) {
  const NamedPolicy* const found = find(name);
  return found == nullptr ? 0 : static_cast<uint64_t>(found - policies.data()) + 1;
}

std::string_view policy_name(uint64_t number) {
  return number == 0 || number > policies.size() ? "" : policies[number - 1].name;
}

Status check_policy(std::string_view name, bool is_live) {
  if (is_live && name == adaptive_policy) return {};
  const NamedPolicy* const found = find(name);
  if (found != nullptr && !(is_live && found->needs_future)) return {};
  std::string known = is_live ? "there are " + std::string(adaptive_policy) : "";
  for (const NamedPolicy& it : policies) {
    if (is_live && it.needs_future) continue;
    known += (known.empty() ? "there are " : ", ") + std::string(it.name);
  }
  const std::string what = found == nullptr
                               ? ": unknown policy"
                               : ": knows the future, which only a simulation can tell it";
  return fail("policy " + std::string(name) + what, known);
}

std::unique_ptr<Policy> make_policy(std::string_view name, const ChunkTable& table,
                                    const Settings& settings, std::span<const ChunkId> future) {
  const NamedPolicy* const found = find(name);
  WP_ASSERT(found != nullptr);
  return found->make(table, settings, future);
}

}  // namespace weightpager::policy
