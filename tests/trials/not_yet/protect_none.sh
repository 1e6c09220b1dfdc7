#!/usr/bin/env bash
# mprotect to PROT_NONE takes the access away, and PROT_READ gives it back.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/trials.sh"
make_model

trial 0 protect-none
finish
