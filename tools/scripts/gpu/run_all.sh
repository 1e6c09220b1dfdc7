#!/usr/bin/env bash
# Everything that wants a GPU or many processors, in one call of ten minutes, on a machine to which build/gpu was
# carried (tools/scripts/gpu/pack.sh): the tests of folder cuda, those of threads, the two ways of a layer's place
# (bench/cuda_alias.cu), faults by threads, a network on CPU and GPU with the same answers, and the five networks in every
# pipeline.
# Results go to $OUT, or build/gpu/results. Ends with the number of steps that failed.
#
#   tools/scripts/gpu/run_all.sh [NETWORK…]      (yolov3 yolov4 yolov4-p6 resnet152 densenet201)
#   tools/scripts/gpu/run_all.sh matrices        only PyTorch's threads (bench/swept_matrices.py), without a GPU, too
#   tools/scripts/gpu/run_all.sh faults          only faults by threads (bench/touching_threads.cc), without a GPU, too
set -uo pipefail
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=tools/scripts/lib/picture.sh
source "$WP_ROOT/tools/scripts/lib/picture.sh"

FOLDER=$WP_ROOT/build/gpu
OUT=${OUT:-$FOLDER/results}
NETS=$(mktemp -d "${WP_NETS:-/var/tmp}/nets.XXXXXX")
trap 'rm -rf -- "$NETS"' EXIT
INFERENCES=${WP_INFERENCES:-20}
FAILED=0

# step WHAT COMMAND…: goes on whatever comes of it.
step() {
  local what=$1 status=0 started=$SECONDS
  shift
  say "$what"
  "$@" || status=$?
  ((status == 0)) || { FAILED=$((FAILED + 1)) && note "FAILED ($status): $what"; }
  note "took $((SECONDS - started)) s"
}

# cuBLAS lies in the driver's path, in CUDA's folder, or in a Python package.
find_cublas() {
  local library
  ldconfig -p | grep -q 'libcublasLt\.so\.1[23]' && return
  library=$(find /usr/local /opt /usr/lib -name 'libcublasLt.so.1[23]' -print -quit 2>/dev/null)
  [[ -n $library ]] || fail "no libcublasLt.so.13 or .12 on this machine: pip install nvidia-cublas"
  note "cuBLAS: $library"
  LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$(dirname -- "$library")
}

# same_answers CFG WEIGHTS: the classes of a picture, on CPU and GPU.
same_answers() {
  make_picture "$NETS/picture.ppm"
  local device
  for device in cpu cuda; do
    timeout 60 weightpager infer "$1" "$2" "$NETS/picture.ppm" --device "$device" --json "$NETS/$device.json" || return
  done
  python3 - "$NETS/cpu.json" "$NETS/cuda.json" <<'PY'
import json, sys
cpu, cuda = ([(c["class"], c["probability"]) for c in json.load(open(path))["pictures"][0]["classes"]] for path in sys.argv[1:])
print(cpu, cuda, sep="\n")
sys.exit(any(a[0] != b[0] or abs(a[1] - b[1]) > 1e-3 * a[1] for a, b in zip(cpu, cuda)))
PY
}

# run_tests PROGRAM LIMIT_SECONDS SHARDS: runs a share of its tests in each of so many processes at once. Says, for the
# record, how many tests were skipped, and why.
run_tests() {
  local shard status=0 logs=$NETS/tests/$1
  local running=()
  for ((shard = 0; shard < $3; shard++)); do
    (cd "$NETS" && GTEST_TOTAL_SHARDS=$3 GTEST_SHARD_INDEX=$shard exec timeout "$2" "$1") >"$logs.$shard.log" 2>&1 &
    running+=($!)
  done
  for shard in "${running[@]}"; do wait "$shard" || status=$?; done
  cat "$logs".*.log | awk '/^\[ +(PASSED|FAILED|SKIPPED) +\] [0-9]+ test/ { sum[$2 == "PASSED" ? "passed" : $2 == "FAILED" ? "failed" : "skipped"] += $4 }
    END { for (what in sum) print "   " sum[what] " " what }'
  grep -hE '^SKIPPED: ' "$logs".*.log | sort | uniq -c
  ((status == 0)) || grep -hE '^\[ +(RUN|FAILED)|: Failure$|^Test timeout' -A 6 "$logs".*.log | grep -B 1 -A 6 'Failure\|FAILED' | head -n 60
  ((status != 124)) || tail -qn 1 "$logs".*.log
  return "$status"
}

run_alias() {
  timeout 60 cuda_alias >"$OUT/cuda_alias.json" && cat "$OUT/cuda_alias.json"
}

bench_network() {
  local net=$NETS/$1
  weightpager model make --net "$1" -o "$NETS" && weightpager model pack "$net.cfg" "$net.weights" -o "$net.packed" ||
    return
  rm -f -- "$net.weights"
  timeout 100 weightpager bench pipelines "$net.cfg" "$net.packed" --device cuda --inferences "$INFERENCES" \
    --windows 9MiB,18MiB --json "$NETS/bench/$1.json" --trace "$NETS/traces/$1.trace.json"
}
# PyTorch's threads on a model larger than its window, against the kernel's mmap: five minutes.
bench_matrices() {
  local model=$NETS/llama
  weightpager model make --size 4GiB --format safetensors -o "$model" || return
  WEIGHTPAGER_BUILD=$FOLDER timeout 400 "$WP_ROOT/bench/swept_matrices.py" --model "$model/model.safetensors" \
    --threads "$(nproc)" --windows 25,50 --kernel --output "$OUT/swept_matrices.json"
  local status=$?
  rm -rf -- "$model"
  return $status
}

# Faults a second, and how long threads wait, by threads: half a minute.
bench_faults() {
  timeout 100 touching_threads --folder "${WP_TMPFS:-/dev/shm}" --json "$OUT/touching_threads.json"
}

main() {
  case ${1:-} in -h | --help) usage && exit 0 ;; esac
  local networks=("$@") net program
  (($#)) || networks=(yolov3 yolov4 yolov4-p6 resnet152 densenet201)
  [[ -e $FOLDER/programs.tar.xz ]] || fail "$FOLDER/programs.tar.xz is not here: tools/scripts/gpu/pack.sh makes it"
  tar -C "$FOLDER" -xJf "$FOLDER/programs.tar.xz" || fail "$FOLDER/programs.tar.xz cannot be unpacked: needs tar and xz"
  mkdir -p "$OUT" "$NETS/bench" "$NETS/traces" "$NETS/tests"
  export PATH=$FOLDER/bin:$PATH LD_LIBRARY_PATH=$FOLDER/lib:${LD_LIBRARY_PATH:-}
  if [[ ${1:-} == matrices ]]; then
    step "PyTorch by $(nproc) threads" bench_matrices
    return "$FAILED"
  fi
  if [[ ${1:-} == faults ]]; then
    step "faults by 1 to 64 threads" bench_faults
    return "$FAILED"
  fi
  # Without one the tests would all be skipped, and nothing would have failed.
  have nvidia-smi || fail "no NVIDIA GPU on this machine"
  nvidia-smi -L || fail "no NVIDIA GPU that answers"
  find_cublas
  # For the record: what it says of page faults is no matter here.
  weightpager doctor || true
  step "tests on the GPU" run_tests test_cuda 200 1
  for program in "$FOLDER"/bin/test_*; do
    [[ $program == */test_cuda ]] || step "tests of ${program##*/test_}" run_tests "${program##*/}" 150 "$((($(nproc) + 1) / 2))"
  done
  step "cuda_alias" run_alias
  step "faults by 1 to 64 threads" bench_faults
  for net in "${networks[@]}"; do
    step "$net" bench_network "$net"
    if [[ $net == resnet152 ]]; then
      step "the same answers on CPU and GPU" same_answers "$NETS/$net.cfg" "$NETS/$net.packed"
    fi
    rm -f -- "$NETS/$net.packed"
  done
  python3 - "$NETS"/bench/*.json >"$OUT/pipelines.json" <<'PY'
import json, sys
print(json.dumps([json.load(open(path)) for path in sys.argv[1:]]))
PY
  tar -C "$NETS" -czf "$OUT/tests_and_traces.tar.gz" tests traces
  say "$FAILED steps failed; results are in $OUT"
  return "$FAILED"
}

main "$@"
