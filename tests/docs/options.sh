#!/usr/bin/env bash
# Each option that a command's --help lists is on the command's page in docs/reference.
set -eu
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../../tools/scripts/lib/common.sh"
missing=()

# check PAGE COMMAND…: the options of a command.
check() {
  local page=$WP_ROOT/docs/reference/$1.md option options
  options=$("$WEIGHTPAGER" "${@:2}" --help | grep -oE '^ +(-[a-z], )?--[a-z][a-z-]+' | grep -oE -- '--[a-z-]+' | sort -u)
  [[ $options ]] || fail "'weightpager ${*:2} --help' lists no options"
  for option in $options; do
    [[ $option == --help ]] || grep -qF -- "$option" "$page" || missing+=("$1.md lacks $option of 'weightpager ${*:2}'")
  done
}

check run run
check serve serve
check plan_budgets serve NET.cfg
check infer infer
check plan plan
check plan_activations plan activations
check plan_primitives plan primitives
check plan_budgets plan budgets
for command in policies disk pipelines simulate blocks; do check bench bench "$command"; done
check reproduce reproduce
check traces trace
check models model show
check packed_weights model pack
check doctor doctor
((${#missing[@]} == 0)) || fail "$(printf '%s\n' "${missing[@]}")"
