#!/usr/bin/env bash
# 100,000 signals to a thread that waits for chunks: each one makes it fault anew.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
make_model

trial 0 signals
finish
