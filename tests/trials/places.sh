#!/usr/bin/env bash
# Models on filesystems that are not a disk's: tmpfs (in memory), ramfs (no direct reads).
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"

MODEL=$(mktemp -p /dev/shm weightpager-XXXXXX.gguf)
trap 'rm -rf -- "$SCRATCH" "$MODEL"' EXIT
make_model
trial 0 plain
rm -f -- "$MODEL"

place=$SCRATCH/ramfs
mkdir "$place"
if ! mount -t ramfs ramfs "$place" 2>/dev/null; then
  note "ramfs: not tried, mounting is refused here"
  finish
  exit 0
fi
trap 'umount -- "$place"; rm -rf -- "$SCRATCH"' EXIT
MODEL=$place/model.gguf
make_model
trial 0 plain
grep -q 'no direct reads on this filesystem' "$ERR" || wrong "ramfs: no line about direct reads"
finish
