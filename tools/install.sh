#!/usr/bin/env bash
# Installs what weightpager is built, tested and shown with, from the distribution's own packages:
# Debian 12, Ubuntu 24.04 and later. What is there is left alone, so a second run takes no time and
# touches neither the network nor root.
#
#   tools/install.sh            compiler, libraries, test tools, Node.js for the llama.cpp engine
#   tools/install.sh --kernels  also QEMU, what a machine is made with, and what builds modules, to test under
#                               other kernels
#   tools/install.sh --peers    also Debian's Darknet, whose results ours are compared with
#   tools/install.sh --bench    also fio, which measures what the disk can do
#   tools/install.sh --dev      also clang-format, clang-tidy, clang for the fuzz targets, Chromium for the live page
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin  # where mke2fs and depmod are
# shellcheck source=tools/scripts/lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/scripts/lib/common.sh"

# COMMAND:PACKAGE, wanted when the command is missing, whoever provided it.
COMMANDS=(g++:g++ cmake:cmake ninja:ninja-build pkg-config:pkg-config jq:jq shellcheck:shellcheck
  python3:python3 ctags:universal-ctags nm:binutils flock:util-linux node:nodejs npm:npm
  scdoc:scdoc groff:groff-base col:bsdextrautils zsh:zsh fish:fish tmux:tmux curl:curl)
# Libraries have no command to look for, so the package database is asked.
LIBRARIES=(liburing-dev libuv1-dev libncurses-dev libcxxopts-dev libfmt-dev nlohmann-json3-dev libexpected-dev
  libdnnl-dev libxxhash-dev libeigen3-dev coinor-libcbc-dev libstb-dev libgtest-dev libgmock-dev
  librapidcheck-dev libbenchmark-dev systemtap-sdt-dev python3-jsonschema
  python3-prometheus-client ca-certificates python3-venv)

KERNEL_COMMANDS=(qemu-system-x86_64:qemu-system-x86 busybox:busybox-static mke2fs:e2fsprogs cpio:cpio
  depmod:kmod xz:xz-utils strip:binutils make:make sparse:sparse)
# What modules are built with beside these: the kernel's own programs load it.
KERNEL_LIBRARIES=(libelf1)

read_options() {
  while (($#)); do
    case $1 in
      --bench) COMMANDS+=(fio:fio) ;;
      --peers) LIBRARIES+=(darknet) ;;
      --kernels) COMMANDS+=("${KERNEL_COMMANDS[@]}") LIBRARIES+=("${KERNEL_LIBRARIES[@]}") ;;
      --dev)
        COMMANDS+=(clang-format:clang-format clang-tidy:clang-tidy clang++:clang chromium:chromium)
        LIBRARIES+=(libclang-rt-dev)
        ;;
      -h | --help) usage && exit 0 ;;
      *) fail "unknown option '$1': tools/install.sh [--kernels] [--peers] [--bench] [--dev]" ;;
    esac
    shift
  done
}

installed_packages() {
  # dpkg-query complains about names it has never heard of; those are missing, which is the answer.
  dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${LIBRARIES[@]}" 2>/dev/null |
    sed -n 's/^installed //p' || true
}

missing_packages() {
  local entry installed
  for entry in "${COMMANDS[@]}"; do
    have "${entry%%:*}" || echo "${entry##*:}"
  done
  installed=$(installed_packages)
  for entry in "${LIBRARIES[@]}"; do
    grep -qxF -- "$entry" <<<"$installed" || echo "$entry"
  done
}

install_packages() {
  say "installing $# packages: $*"
  as_root apt-get update -qq ||
    fail "apt-get update failed: check the network and /etc/apt, then run tools/install.sh again"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" ||
    fail "apt-get could not install all of: $*. Debian 12 and Ubuntu 24.04 (with universe) have them all"
}

check_cmake() {
  local version
  version=$(cmake --version | sed -n '1s/.*version //p')
  printf '3.25\n%s\n' "$version" | sort -V -C ||
    fail "cmake $version at $(command -v cmake) is too old: 3.25 or later is needed, Debian 12 has it"
}

main() {
  read_options "$@"
  have apt-get ||
    fail "this script knows Debian and Ubuntu only. Install by hand: ${COMMANDS[*]##*:} ${LIBRARIES[*]}"
  local missing
  mapfile -t missing < <(missing_packages)
  if ((${#missing[@]})); then
    install_packages "${missing[@]}"
  fi
  check_cmake
}

main "$@"
