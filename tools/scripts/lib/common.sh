# shellcheck shell=bash disable=SC2034  # what is set here is used by those that source it
# What every script here shares: where things are, how to talk, how to become root for one command.
# Source it; it changes nothing by itself.

WP_ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../.." && pwd)
WP_CACHE=${WEIGHTPAGER_CACHE:-${HOME:?HOME is not set: set it, or WEIGHTPAGER_CACHE}/.cache/weightpager}
WP_BUILD=$WP_ROOT/build/release

# One line of progress. Long steps say what they do before they do it.
say() { printf '== %s\n' "$*"; }

note() { printf '   %s\n' "$*"; }

# fail WHAT HAPPENED, AND WHAT TO DO
fail() {
  printf '%s: %s\n' "$(basename -- "$0")" "$*" >&2
  exit 1
}

# A script's opening comment is its help.
usage() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; }

# Tests end with 77 when this machine cannot run them; ctest counts them as skipped.
skip() {
  printf 'SKIPPED: %s\n' "$*"
  exit 77
}

have() { command -v "$1" >/dev/null 2>&1; }

as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  elif have sudo; then
    sudo -- "$@"
  else
    fail "'$*' needs root: run this script as root, or install sudo"
  fi
}

# bytes_of 512MiB -> 536870912. Whole numbers with B, KiB, MiB, GiB or TiB.
bytes_of() {
  [[ $1 =~ ^([0-9]+)(B|KiB|MiB|GiB|TiB)$ ]] || fail "'$1' is no size: write it like 512MiB"
  local power
  case ${BASH_REMATCH[2]} in B) power=0 ;; KiB) power=10 ;; MiB) power=20 ;; GiB) power=30 ;; *) power=40 ;; esac
  echo $((BASH_REMATCH[1] << power))
}

mib_of() { echo "$((($1 + (1 << 19)) >> 20)) MiB"; }

# Forgets what the page cache holds of a file, so that the next reader starts from the disk. Needs no
# root; pages that some process has mapped stay.
drop_page_cache() {
  sync -- "$1"
  dd of="$1" oflag=nocache conv=notrunc,fdatasync count=0 status=none
}
