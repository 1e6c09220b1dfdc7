#!/usr/bin/env bash
# OpenMetrics on the socket and over HTTP, as its own parser reads it, and with the figures that stat has;
# what HTTP refuses; the dashboard asks for nothing that there is not.
set -euo pipefail
# shellcheck source=tests/cli/lib/live.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/live.sh"

start_live_engine --http 0 --policy pin-stream
await_page
ROOT=http://127.0.0.1:$HTTP_PORT

# status [CURL OPTION…] TARGET
status() { curl -s -o "$SCRATCH/body" -w '%{http_code}' "${@:1:$#-1}" "$ROOT${*: -1}"; }
expect_http() {
  local expected=$1 found
  shift
  found=$(status "$@")
  [[ $found == "$expected" ]] || fail "HTTP $found for $*, expected $expected"
}

# Counters grow: what the scrape says lies between two looks at the socket.
"$WEIGHTPAGER" stat "$LIVE_PID" -n 1 --json >"$SCRATCH/before"
weightpager metrics "$LIVE_PID"
expect_status 0
"$WEIGHTPAGER" stat "$LIVE_PID" -n 1 --json >"$SCRATCH/after"
expect_http 200 /metrics
cp "$SCRATCH/body" "$SCRATCH/scraped"

cat >"$SCRATCH/check.py" <<'PYTHON'
import json, sys
before, text, after, scraped = (open(path).read() for path in sys.argv[1:5])
before, after = json.loads(before), json.loads(after)
try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
except ImportError:
    print("   python3-prometheus-client is not here: OpenMetrics is not parsed")
    sys.exit(0)
families = {family.name: family for family in parse(text)}
assert {family.name for family in parse(scraped)} == set(families), "HTTP has others"

def value(name, **labels):
    found = [s.value for f in families.values() for s in f.samples
             if s.name == "weightpager_" + name and labels.items() <= s.labels.items()]
    assert len(found) == 1, (name, labels, found)
    return found[0]

for name, key, unit, labels in [
    ("read_bytes_total", "read_bytes", 1, {}), ("stall_seconds_total", "stall_ns", 1e9, {}),
    ("faults_total", "faults_demand", 1, {"kind": "demand"}), ("faults_total", "faults_late", 1, {"kind": "late"}),
    ("faults_total", "faults_tripwire", 1, {"kind": "tripwire"}), ("evictions_total", "evictions", 1, {}),
    ("prefetched_chunks_total", "prefetch_hidden", 1, {"outcome": "hidden"}), ("passes_total", "passes", 1, {}),
    ("window_bytes", "window_bytes", 1, {}), ("model_bytes", "model_bytes", 1, {}),
]:
    found = value(name, **labels)
    assert before[key] / unit - 1e-6 <= found <= after[key] / unit + 1e-6, (name, before[key], found, after[key])
assert value("pager_info") == 1 and families["weightpager_pager"].samples[0].labels["pid"] == str(after["process_id"])
# Waits are counted when they end, faults when they begin.
for kind in ("demand", "late", "tripwire"):
    assert value("fault_wait_seconds_count", kind=kind) <= after["faults_" + kind]
    assert value("fault_wait_seconds_bucket", kind=kind, le="+Inf") == value("fault_wait_seconds_count", kind=kind)
stalls = [s.value for s in families["weightpager_layer_stall_seconds"].samples]
assert len(stalls) > 2 and sum(stalls) <= after["stall_ns"] / 1e9 + 1e-6, (stalls, after["stall_ns"])
for name, family in families.items():
    assert name.startswith("weightpager_") and (not family.unit or name.endswith("_" + family.unit)), name
PYTHON
/usr/bin/python3 "$SCRATCH/check.py" "$SCRATCH/before" "$OUT" "$SCRATCH/after" "$SCRATCH/scraped"

# What the dashboard asks for is there.
grep -oE 'weightpager_[a-z_]+' "$WP_ROOT/docs/grafana.json" | sort -u >"$SCRATCH/asked"
[[ -s $SCRATCH/asked ]] || fail "the dashboard asks for nothing"
while read -r name; do
  grep -qE "^$name(\{| )" "$OUT" || fail "docs/grafana.json asks for $name, which there is not"
done <"$SCRATCH/asked"
jq -e '.panels | length > 3 and all(.[]; .title and (.targets | length > 0))' "$WP_ROOT/docs/grafana.json" >/dev/null

# Pages, and what is refused.
expect_http 200 /
grep -q '<!DOCTYPE html>' "$SCRATCH/body" || fail "/ is no page"
! grep -qE '(src|href)="?(https?:)?//' "$SCRATCH/body" || fail "the page needs something from elsewhere"
expect_http 200 '/api/residency?model=0&by=layer'
jq -e '.ok and (.rows | length > 2)' "$SCRATCH/body" >/dev/null || fail "residency: $(cat "$SCRATCH/body")"
expect_http 200 '/api/residency?model=99'
jq -e '.ok | not' "$SCRATCH/body" >/dev/null || fail "a model that there is not: $(cat "$SCRATCH/body")"
expect_http 404 /api/set?window=64MiB
expect_http 404 /api/trace?do=start
expect_http 404 /etc/passwd
expect_http 404 /nothing
expect_http 405 -X POST /api/stat
expect_http 403 -H 'Host: elsewhere.example' /metrics
expect_http 431 -H "X: $(head -c 5000 /dev/zero | tr '\0' x)" /metrics
[[ $(curl -sI "$ROOT/metrics" | tr -d '\r' | sed -n 's/^Content-Type: //p') == application/openmetrics-text* ]] ||
  fail "another type: $(curl -sI "$ROOT/metrics")"

# A larger window keeps more as soon as its memory has come.
gauge() { "$WEIGHTPAGER" metrics "$LIVE_PID" | sed -n "s/^weightpager_$1_bytes //p"; }
before=$(gauge pinned)
weightpager ctl "$LIVE_PID" set window=64MiB
expect_status 0
(($(gauge window) == 64 << 20)) || fail "window: $(gauge window) bytes, not 64 MiB"
until (($(gauge pinned) > before)); do sleep 0.05; done

# Misuse, and a port that is taken: the engine does not start.
weightpager run --window 64MiB --http 99999 -- "${MARKING[@]}"
expect_refusal '--http 99999'
weightpager metrics 4194304
expect_status 3
weightpager run --window 32MiB --http "$HTTP_PORT" -- "${MARKING[@]}"
expect_refusal "--http $HTTP_PORT: "
