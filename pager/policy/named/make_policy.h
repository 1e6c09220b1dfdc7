// Policies by name.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "pager/base/result.h"
#include "pager/policy/policy.h"

namespace weightpager::policy {

/// What serves most engines best.
inline constexpr std::string_view default_policy = "expert";
/// The live pager's default. The pager begins with `default_policy`, and takes another one where
/// that serves the engine better (pager/shadow). Not a policy itself.
inline constexpr std::string_view adaptive_policy = "auto";

/// The policy that begins with what it learned in an earlier run, if that was kept
/// (pager/profiles).
inline constexpr std::string_view learning_policy = "learned";

struct NamedPolicy {
  std::string_view name;
  std::string_view description;
  std::unique_ptr<Policy> (*make)(const ChunkTable& table, const Settings& settings,
                                  std::span<const ChunkId> future);
  /// The policy has to be told the future, so that only a simulator can use it.
  bool needs_future = false;
};

/// All of them, from the simplest to the bound.
std::span<const NamedPolicy> named_policies();

/// A policy's number in counters: 1 and up, in the order of named_policies(); 0 if no policy has
/// the name. The name of a number that no policy has is empty. A row that moves changes numbers:
/// raise telemetry_version (pager/telemetry/telemetry.h).
uint64_t policy_number(std::string_view name);
std::string_view policy_name(uint64_t number);

/// Fails, with a list of all names, if there is no such policy. `is_live`: also fails if the policy
/// needs the future, and knows `adaptive_policy`.
Status check_policy(std::string_view name, bool is_live);

/// Requires a name of named_policies(). `table` outlives the policy, as does `future`, which is for
/// a policy that needs it.
std::unique_ptr<Policy> make_policy(std::string_view name, const ChunkTable& table,
                                    const Settings& settings, std::span<const ChunkId> future = {});

}  // namespace weightpager::policy
