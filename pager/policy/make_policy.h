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
/// For the live pager alone, and what it does unless it is told otherwise: begins with the default
/// one, and takes another where that serves the engine better (pager/shadow).
inline constexpr std::string_view adaptive_policy = "auto";

/// Begins with what it learned in an earlier run, if that was kept (pager/lessons).
inline constexpr std::string_view learning_policy = "learned";

struct NamedPolicy {
  std::string_view name;
  std::string_view description;
  std::unique_ptr<Policy> (*make)(const ChunkTable& table, const Settings& settings,
                                  std::span<const ChunkId> future);
  /// Has to be told the future, so that only a simulator can use it.
  bool needs_future = false;
};

/// All of them, from the simplest to the bound.
std::span<const NamedPolicy> named_policies();

/// For counters: 1 and up, in the order of named_policies(); 0 for none. The name of 0, and of what
/// is no number, is empty.
uint64_t policy_number(std::string_view name);
std::string_view policy_name(uint64_t number);

/// Fails, listing the names, if there is no such policy. `is_live`: … or if it needs the future;
/// the adaptive one is known then.
Status check_policy(std::string_view name, bool is_live);

/// `table`, and `future` for one that needs it, outlive the policy. Requires a name of
/// named_policies().
std::unique_ptr<Policy> make_policy(std::string_view name, const ChunkTable& table,
                                    const Settings& settings, std::span<const ChunkId> future = {});

}  // namespace weightpager::policy
