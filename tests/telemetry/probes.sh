#!/usr/bin/env bash
# What carries a pager has the probes of docs/reference/probes.md, with as many arguments as it says; the bpftrace
# scripts use no others.
set -euo pipefail
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../../tools/scripts/lib/common.sh"

echo '#include <sys/sdt.h>' | c++ -E -xc++ - >/dev/null 2>&1 || skip "sys/sdt.h is not here (systemtap-sdt-dev)"

# documented: "NAME COUNT" of each probe.
documented() {
  # shellcheck disable=SC2016  # backquotes of Markdown
  sed -n 's/^| `\([a-z_]*\)` |[^|]*| \(.*\) |$/\1\t\2/p' "$WP_ROOT/docs/reference/probes.md" |
    sed 's/([^)]*)//' | awk -F '\t' '{ print $1, split($2, arguments, ",") }' | sort
}
# built FILE: the same of what is in it. A probe may be at several places.
built() {
  readelf -n "$1" | awk '
    /Provider:/ { is_ours = $2 == "weightpager" }
    /Name:/ { name = $2 }
    /Arguments:/ && is_ours { print name, NF - 1 }' | sort -u
}
# used SCRIPT: "NAME HIGHEST" of each probe and the arguments that its block uses.
used() {
  awk '
    /^usdt:/ { split($1, parts, ":"); name = parts[4]; highest[name] += 0 }
    name { rest = $0
           while (match(rest, /arg[0-9]/)) {
             number = substr(rest, RSTART + 3, 1) + 1
             if (number > highest[name]) highest[name] = number
             rest = substr(rest, RSTART + 4)
           } }
    /^}/ { name = "" }
    END { for (name in highest) print name, highest[name] }' "$1"
}

documented=$(documented)
[[ $(wc -l <<<"$documented") -ge 6 ]] || fail "docs/reference/probes.md: $documented"
for file in pager/libweightpager_preload.so pager/libweightpager.so tools/weightpager; do
  [[ -e $WEIGHTPAGER_BUILD/$file ]] || fail "$file was not built"
  [[ $(built "$WEIGHTPAGER_BUILD/$file") == "$documented" ]] ||
    fail "$file has other probes than docs/reference/probes.md: $(built "$WEIGHTPAGER_BUILD/$file")"
done
for script in "$WP_ROOT"/docs/bpftrace/*.bt; do
  [[ $(used "$script") ]] || fail "$script uses no probe"
  while read -r name highest; do
    count=$(sed -n "s/^$name //p" <<<"$documented")
    ((highest <= ${count:-0})) || fail "$script: $name has ${count:-no} arguments, not $highest"
  done < <(used "$script")
done
