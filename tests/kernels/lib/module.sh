# shellcheck shell=bash
# What the tests of weightpager.ko begin with. Set `series` to a kernel's ("6.12"), then source this file: $work has
# weightpager.ko and weightpager_remote.ko for that kernel, and is removed at the end. Skips the test where the module
# cannot be built.
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../../../tools/scripts/lib/common.sh"
# shellcheck source=tools/scripts/kernel/image.sh
source "$WP_ROOT/tools/scripts/kernel/image.sh"
# shellcheck source=tools/scripts/kernel/modules.sh
source "$WP_ROOT/tools/scripts/kernel/modules.sh"

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
have make || skip "make is not installed: tools/install.sh --kernels"
# shellcheck disable=SC2154  # the test has set it
build_modules "$series" "$work" || skip "$KERNEL_MISSING"
