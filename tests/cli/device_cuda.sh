#!/usr/bin/env bash
# --device cuda: the same answers as on the CPU where there is a GPU, elsewhere an error that says what is
# missing; and traces, which both have.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

net=$SCRATCH/squeezenet
make_networks squeezenet
make_picture "$SCRATCH/picture.ppm"

weightpager infer "$net.cfg" "$net.weights" "$SCRATCH/picture.ppm" --device gpu
expect_status 2
expect_error '--device gpu: no such device'

# Each layer of the cpu's last pass computed once, in order; those with weights read.
weightpager infer "$net.cfg" "$net.weights" "$SCRATCH/picture.ppm" --pipeline async --json "$SCRATCH/cpu.json" \
  --trace "$SCRATCH/trace.json"
expect_status 0
jq -e '[.traceEvents[] | select(.ph == "X" and .cat == "kernel")] as $kernels | ($kernels | length) == 48 and
  ([$kernels[].ts] | . == sort) and ([$kernels[] | select(.dur < 0)] | length) == 0 and
  ([.traceEvents[] | select(.ph == "X" and .cat == "copy")] | length) == 26 and
  ([.traceEvents[] | select(.ph == "b" and .cat == "read")] | length) == 26 and
  ([.traceEvents[] | select(.name == "thread_name") | .args.name] == ["read", "copy", "kernel"])' \
  "$SCRATCH/trace.json" >/dev/null || fail "trace: $(head -c 2000 "$SCRATCH/trace.json")"
weightpager bench pipelines "$net.cfg" "$net.weights" --inferences 1 --windows 1MiB --trace "$SCRATCH/bench.trace"
expect_status 0
jq -e '[.traceEvents[] | select(.name == "process_name")] | length == 10' "$SCRATCH/bench.trace" >/dev/null ||
  fail "trace: $(head -c 2000 "$SCRATCH/bench.trace")"

weightpager infer "$net.cfg" "$net.weights" "$SCRATCH/picture.ppm" --device cuda --json "$SCRATCH/cuda.json"
if [[ $STATUS == 0 ]]; then
  jq -e '.pipeline == "asynchronous" and .device == "cuda" and .device_weights_bytes > 0' "$SCRATCH/cuda.json" >/dev/null ||
    fail "figures: $(cat "$SCRATCH/cuda.json")"
  classes() { jq -c '[.pictures[].classes[].class]' "$1"; }
  [[ $(classes "$SCRATCH/cpu.json") == "$(classes "$SCRATCH/cuda.json")" ]] || fail "$(cat "$SCRATCH/cuda.json")"
else
  # Not built, no driver or GPU, no cuBLAS: in this order.
  expect_status 1
  if ! grep -qE '^weightpager: error: (this build of weightpager has no CUDA|there is no GPU that CUDA can use: |cuBLAS, which computes on GPUs, was not found)' "$ERR"; then
    fail "error: $(cat "$ERR")"
  fi
  [[ $(wc -l <"$ERR") == 2 ]] || fail "no hint: $(cat "$ERR")"
  [[ ! -s $OUT ]] || fail "an answer in spite of that: $(cat "$OUT")"
fi
