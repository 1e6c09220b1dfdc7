#!/usr/bin/env bash
# Installs the engine that tests, demo and benchmarks run: llama.cpp as its binaries are released, in
# the npm package node-llama-cpp, CPU only, nothing compiled and nothing changed. It goes to
# $WEIGHTPAGER_CACHE/engine (default ~/.cache/weightpager/engine) and is left alone when it is there.
#
#   tools/scripts/engine.sh                 install, and say where
#   tools/scripts/engine.sh --node          print the node that runs it (20 or later; fetched when the
#                                   distribution's is older)
#   tools/scripts/engine.sh --keep-mapped   print the library that the kernel's arm of a comparison preloads
#                                   (bench/engines/keep_mapped.c says why)
set -euo pipefail
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/common.sh"

ENGINE_VERSION=3.22.1
NODE_VERSION=22.23.3
ENGINE=$WP_CACHE/engine
STAMP=$ENGINE/installed-$ENGINE_VERSION

platform() {
  case $(uname -m) in
    x86_64) echo linux-x64 ;;
    aarch64) echo linux-arm64 ;;
    *) fail "node-llama-cpp has no released binaries for $(uname -m): x86_64 and aarch64 only" ;;
  esac
}

npm_install() {
  timeout 300 npm install --prefix "$ENGINE" --ignore-scripts --omit=optional --no-audit --no-fund \
    --no-package-lock --save-exact --fetch-retries=1 --loglevel=error "$@" >&2 ||
    fail "npm could not install $*: it needs the npm registry; run tools/scripts/engine.sh again with a network"
}

node_is_new_enough() {
  have node && (($(node -p 'process.versions.node.split(".")[0]') >= 20))
}

# Debian 12 and Ubuntu 24.04 bring Node.js 18; the engine's JavaScript needs 20.
install_engine() {
  have npm || fail "npm is missing: run tools/install.sh"
  say "installing llama.cpp (node-llama-cpp $ENGINE_VERSION) into $ENGINE" >&2
  mkdir -p "$ENGINE"
  local packages=("node-llama-cpp@$ENGINE_VERSION" "@node-llama-cpp/$(platform)@$ENGINE_VERSION")
  node_is_new_enough || packages+=("node-$(platform)@$NODE_VERSION")
  npm_install "${packages[@]}"
  touch "$STAMP"
}

engine_node() {
  local fetched
  fetched=$ENGINE/node_modules/node-$(platform)/bin/node
  if [[ -x $fetched ]]; then
    echo "$fetched"
  elif node_is_new_enough; then
    command -v node
  else
    fail "the engine needs Node.js 20 or later: remove $ENGINE and run tools/scripts/engine.sh again"
  fi
}

keep_mapped_library() {
  local source=$WP_ROOT/bench/engines/keep_mapped.c library=$ENGINE/keep_mapped.so
  if [[ ! $library -nt $source ]]; then
    cc -O2 -Wall -Wextra -shared -fPIC -o "$library.$$" "$source" ||
      fail "$source did not compile: run tools/install.sh"
    mv "$library.$$" "$library"
  fi
  echo "$library"
}

main() {
  local what=${1:-}
  case $what in
    -h | --help) usage && exit 0 ;;
    '' | --node | --keep-mapped) ;;
    *) fail "unknown option '$what': tools/scripts/engine.sh [--node | --keep-mapped]" ;;
  esac
  mkdir -p "$WP_CACHE"
  # Two scripts may start at once; the second waits for the first and finds its work done.
  exec 9>"$WP_CACHE/engine.lock"
  flock 9
  [[ -e $STAMP ]] || install_engine
  case $what in
    --node) engine_node ;;
    --keep-mapped) keep_mapped_library ;;
    *) echo "llama.cpp (node-llama-cpp $ENGINE_VERSION): $ENGINE" ;;
  esac
}

main "$@"
