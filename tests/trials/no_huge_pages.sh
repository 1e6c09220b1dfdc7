#!/usr/bin/env bash
# Transparent huge pages are off for the process: slots are made of small pages.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
make_model

BEFORE=("$LAUNCHER" --no-huge-pages --)
trial 0 plain
trial 0 fork
trial 0 unmap
finish
