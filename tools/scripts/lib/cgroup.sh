#!/usr/bin/env bash
# Runs one command inside a fresh memory cgroup with a limit: what a container or a small machine would
# do to it. Page cache that the command reads counts too, swap is off. Version 1 and 2 are handled,
# whichever has the memory controller here; where neither lets this user make a group, a scope of the
# user's systemd is tried.
#
#   tools/scripts/lib/cgroup.sh --limit 600MiB [--swap] [--report FILE] -- COMMAND ARGS…
#   tools/scripts/lib/cgroup.sh --check        exit 0 when groups can be made here, else 77 and the reason
#
# Ends with the command's exit code (137 when the limit killed it). FILE gets one JSON object:
# {"limit_bytes", "max_bytes", "oom_kills", "cgroup"}; max_bytes is the most the group ever held.
set -euo pipefail
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

MOUNTS=/proc/self/mounts
GROUP=
HAS_SWAP=

# The mount point of a cgroup file system: mount_of cgroup memory, mount_of cgroup2 ''
mount_of() {
  awk -v type="$1" -v option="$2" '
    $3 == type && (option == "" || ("," $4 ",") ~ ("," option ",")) { print $2; exit }' "$MOUNTS"
}

# This process's group below a mount point; the mount point itself where the path is not visible, as in
# many containers. Fields of /proc/self/cgroup: number:controllers:path.
own_group() {
  local mount=$1 controller=$2 path
  path=$(awk -F: -v want="$controller" '("," $2 ",") ~ ("," want ",") { print $3; exit }' /proc/self/cgroup)
  if [[ -d $mount$path ]]; then
    echo "${mount}${path%/}"
  else
    echo "$mount"
  fi
}

# Groups that a killed run left behind: empty, and their maker is gone.
remove_leftovers() {
  local group
  for group in "$1"/weightpager.*; do
    [[ -d $group && ! -d /proc/${group##*.} ]] && rmdir -- "$group" 2>/dev/null
  done
  return 0
}

# make_below PARENT LIMIT_FILE: leaves the new group in GROUP, or fails without a trace.
make_below() {
  local parent=$1 limit_file=$2 group=$1/weightpager.$$
  remove_leftovers "$parent"
  mkdir -- "$group" 2>/dev/null || return 1
  # Whether a process may be moved there is only known by moving one.
  if [[ -w $group/$limit_file ]] && (echo "$BASHPID" >"$group/cgroup.procs") 2>/dev/null; then
    GROUP=$group
    return 0
  fi
  rmdir -- "$group"
  return 1
}

make_group_v1() {
  local mount
  mount=$(mount_of cgroup memory)
  [[ -n $mount ]] || return 1
  make_below "$(own_group "$mount" memory)" memory.limit_in_bytes ||
    make_below "$mount" memory.limit_in_bytes
}

# In version 2 a group's children have the controller only when the group says so, and a group that
# holds processes may not say so: the nearest ancestor that does, or can be made to, is the parent.
offers_memory() {
  grep -qw memory "$1/cgroup.subtree_control" 2>/dev/null && return 0
  grep -qw memory "$1/cgroup.controllers" 2>/dev/null &&
    (echo +memory >"$1/cgroup.subtree_control") 2>/dev/null
}

make_group_v2() {
  local mount parent
  mount=$(mount_of cgroup2 '')
  [[ -n $mount ]] || return 1
  grep -qw memory "$mount/cgroup.controllers" || return 1
  parent=$(own_group "$mount" '')
  while true; do
    if offers_memory "$parent" && make_below "$parent" memory.max; then
      return 0
    fi
    [[ $parent != "$mount" ]] || return 1
    parent=${parent%/*}
  done
}

make_group() { make_group_v1 || make_group_v2; }

limit_group() {
  local bytes=$1
  if [[ -e $GROUP/memory.max ]]; then
    echo "$bytes" >"$GROUP/memory.max"
    [[ -n $HAS_SWAP || ! -e $GROUP/memory.swap.max ]] || echo 0 >"$GROUP/memory.swap.max"
  else
    echo "$bytes" >"$GROUP/memory.limit_in_bytes"
    [[ -n $HAS_SWAP || ! -e $GROUP/memory.memsw.limit_in_bytes ]] ||
      echo "$bytes" >"$GROUP/memory.memsw.limit_in_bytes"
  fi
}

# The first of the named files that the group has, or null.
value_of() {
  local name
  for name in "$@"; do
    if [[ -e $GROUP/$name ]]; then
      cat -- "$GROUP/$name"
      return
    fi
  done
  echo null
}

write_report() {
  local limit=$1 file=$2 kills
  kills=$(value_of memory.events memory.oom_control | awk '$1 == "oom_kill" { print $2 }')
  printf '{"limit_bytes": %s, "max_bytes": %s, "oom_kills": %s, "cgroup": "%s"}\n' "$limit" \
    "$(value_of memory.peak memory.max_usage_in_bytes)" "${kills:-null}" "$GROUP" >"$file"
}

# The last pages go with a delay, and a group is busy until they have gone.
remove_group() {
  local try
  for try in {1..50}; do
    rmdir -- "$GROUP" 2>/dev/null && return 0
    [[ ! -w $GROUP/memory.force_empty ]] || echo 0 >"$GROUP/memory.force_empty" 2>/dev/null || true
    sleep "0.0$((try / 10 + 1))"
  done
  printf 'cgroup.sh: %s is still busy, left in place\n' "$GROUP" >&2
}

run_in_group() {
  local limit=$1 report=$2 status=0
  shift 2
  limit_group "$limit"
  trap remove_group EXIT
  (
    echo "$BASHPID" >"$GROUP/cgroup.procs"
    exec "$@"
  ) || status=$?
  [[ -z $report ]] || write_report "$limit" "$report"
  return "$status"
}

# --- where groups cannot be made directly: a scope of the user's systemd ---

scope() { systemd-run --user --scope --quiet --collect "$@"; }

scopes_work() {
  have systemd-run && [[ -n $(mount_of cgroup2 '') ]] &&
    scope -p MemoryMax=64M -- grep -q memory "$(mount_of cgroup2 '')/cgroup.controllers" 2>/dev/null
}

# Runs inside the scope: the group is this process's own, and systemd removes it.
inside_scope() {
  local limit=$1 report=$2 status=0
  shift 2
  GROUP=$(own_group "$(mount_of cgroup2 '')" '')
  "$@" || status=$?
  [[ -z $report ]] || write_report "$limit" "$report"
  return "$status"
}

run_in_scope() {
  local swap_max=0
  [[ -z $HAS_SWAP ]] || swap_max=infinity
  scope -p MemoryMax="$1" -p MemorySwapMax="$swap_max" -- "$0" --inside-scope "$@"
}

no_group() {
  skip "no memory cgroup can be made here: run as root, or in a login session with systemd" \
    "(version 1: /sys/fs/cgroup/memory must be writable; version 2: a group whose" \
    "cgroup.subtree_control has 'memory')"
}

check() {
  if make_group; then
    rmdir -- "$GROUP"
  else
    scopes_work || no_group
  fi
}

main() {
  local limit='' report=''
  while (($#)); do
    case $1 in
      --check) check; exit 0 ;;
      --inside-scope) shift; inside_scope "$@"; exit 0 ;;
      --limit) limit=${2:-} && shift ;;
      --report) report=${2:-} && shift ;;
      --swap) HAS_SWAP=1 ;;
      --) shift && break ;;
      -h | --help) usage && exit 0 ;;
      *) fail "unknown option '$1': tools/scripts/lib/cgroup.sh --limit 600MiB [--report FILE] -- COMMAND" ;;
    esac
    shift
  done
  [[ -n $limit && $# -gt 0 ]] ||
    fail "say a limit and a command: tools/scripts/lib/cgroup.sh --limit 600MiB -- COMMAND ARGS…"
  [[ $limit =~ ^[0-9]+$ ]] || limit=$(bytes_of "$limit")
  if make_group; then
    run_in_group "$limit" "$report" "$@"
  elif scopes_work; then
    run_in_scope "$limit" "$report" "$@"
  else
    no_group
  fi
}

main "$@"
