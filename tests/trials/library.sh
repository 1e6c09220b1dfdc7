#!/usr/bin/env bash
# The engine proper is a library that the program loads with dlopen, as plug-ins and Python's are.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
make_model

trial 0 library "$LIBRARY"
finish
