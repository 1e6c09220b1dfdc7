#!/usr/bin/env bash
# A service maps a model as root that nobody else may read, gives up its rights, and forks.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
[[ $(id -u) == 0 ]] || skip "only root can give up rights"
make_model
chmod 600 "$MODEL"
trial 0 rights-dropped
finish
