# shellcheck shell=bash disable=SC2034  # what is set here is used by those that source it
# Builds weightpager.ko, and the module that its tests need, for a Debian kernel. Source it after image.sh.

# build_modules SERIES DIRECTORY: leaves weightpager.ko and weightpager_remote.ko there, checked by sparse where
# that is installed. Returns 1, with the reason in KERNEL_MISSING, when there are no headers to build against.
build_modules() {
  local series=$1 at=$2 checks=() folder
  find_kernel "$series" && find_headers "$series" || return 1
  ! have sparse || checks=(C=2 CHECK='sparse -Wsparse-error')
  cp -r -- "$WP_ROOT/kmod" "$WP_ROOT/tests/kmod/remote" "$at"
  for folder in kmod remote; do
    # Type information of modules needs pahole.
    make -C "$HEADERS" M="$at/$folder" CONFIG_DEBUG_INFO_BTF_MODULES= W=1 "${checks[@]}" modules >"$at/log" 2>&1 || {
      cat -- "$at/log" >&2
      fail "$folder does not build for $series"
    }
    ! grep -E 'warning:' "$at/log" || fail "$folder builds with warnings for $series"
    mv -- "$at/$folder"/*.ko "$at"
  done
}
