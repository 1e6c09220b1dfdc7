#!/usr/bin/env bash
# The delay model of a small network on this machine: samples for every layer, and a file that plans are made with.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

net=$SCRATCH/squeezenet
make_networks squeezenet
weightpager bench blocks "$net.cfg" "$net.weights" --repeats 2 --json "$SCRATCH/model.json"
expect_status 0
grep -qE '^in +[0-9.]+ ns per byte, .* of 26$' "$OUT" || fail "no model of reads: $(cat "$OUT")"
grep -qE '^ex +[0-9.]+ ns per operation, .* of 48$' "$OUT" || fail "no model of kernels: $(cat "$OUT")"
# How well it fits, and whether operations or layers seem to cost more, depends on the machine and on who else computes;
# that it is a model does not.
jq -e '(.samples | length) == 48 and all(.model[]; . >= 0) and ([.model | .kernel_ns_per_operation, .kernel_ns_per_layer] | add) > 0 and
  .fit.read.r_squared <= 1 and ([.samples[] | select(.size_bytes > 0 and .read_ns > 0)] | length) == 26' \
  "$SCRATCH/model.json" >/dev/null || fail "figures: $(cat "$SCRATCH/model.json")"
weightpager plan budgets "$net.cfg" --budget 3MiB --profile "$SCRATCH/model.json"
expect_status 0

weightpager bench blocks "$net.cfg"
expect_status 2
expect_error 'expected a .cfg and its weights'
weightpager bench blocks "$net.cfg" "$net.cfg"
expect_status 1
