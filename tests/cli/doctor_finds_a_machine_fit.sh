#!/usr/bin/env bash
# Where the other tests run, nothing fails: for people in an aligned table, for programs as JSON with the
# same rows. A model's rows come on top.
set -eu
# shellcheck source=tests/cli/lib/cli.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/cli.sh"

weightpager doctor
expect_status 0
grep -qE '^(ok|warn)  +userfaultfd  ' "$OUT" || fail "no userfaultfd: $(cat "$OUT")"
! grep -q $'\033' "$OUT" || fail "colours in a file"
table_rows=$(grep -cE '^(ok|info|warn) ' "$OUT")

doctor --json
expect_status 0
[[ $(jq '.rows | length' "$OUT") == "$table_rows" ]] || fail "$table_rows rows in the table: $(cat "$OUT")"
expect_row kernel info "$(uname -r)"
for row in userfaultfd mapper kernel_module written_pages io_uring huge_pages memlock max_map_count address_space; do
  jq -e --arg id "$row" 'any(.rows[]; .id == $id)' "$OUT" >/dev/null || fail "no row $row"
done

make_llama 80MiB "$SCRATCH/model.gguf"
doctor --json --window 50% "$SCRATCH/model.gguf"
expect_status 0
expect_row model ok 'gguf llama'
jq -e '.rows[] | select(.id == "reading").facts | .read_bytes > 67108864 and .bytes_per_second > 0' "$OUT" \
  >/dev/null || fail "the model was not read: $(cat "$OUT")"
expect_row window info 'holds 50 %'

# A folder for --spill. Not $SCRATCH, which may lie in memory.
folder=$(mktemp -d -p "$PWD" spill.XXXXXX)
trap 'rm -rf -- "$SCRATCH" "$folder"' EXIT
doctor --json --window 32MiB --spill "$folder" "$SCRATCH/model.gguf"
expect_status 0
expect_row spill_wear info ''
jq -e --arg folder "$folder" '[.rows[] | {(.id): .facts}] | add |
  .spill_folder.works and .spill_folder.folder == $folder and .spill_folder.type != "" and
  .spill_room.room_bytes > .spill_room.needed_bytes and .spill_room.needed_bytes > 40000000 and
  .spill_writing.bytes_per_second > 0 and .spill_writing.written_bytes <= 268435456 and
  .spill_wear.start_bytes_max == .spill_room.needed_bytes' "$OUT" >/dev/null || fail "the folder: $(cat "$OUT")"
[[ -z $(ls -A "$folder") ]] || fail "something is left in the folder"
doctor --json --spill "$folder/nowhere"
expect_status 1
expect_row spill_folder fail 'make the folder first'
if [[ $(stat -f -c %T /dev/shm) == tmpfs ]]; then
  doctor --json --spill /dev/shm
  expect_status 1
  expect_row spill_folder fail 'its file system is in memory'
fi
