#!/usr/bin/env bash
# What a core dump of an engine would hold: its own memory, with what it wrote to its weights, and not
# the window, nor the addresses that are reserved for it.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
make_model
trial 0 core
finish
