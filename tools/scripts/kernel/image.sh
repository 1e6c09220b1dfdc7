# shellcheck shell=bash disable=SC2034  # what is set here is used by those that source it
# A Debian kernel that is booted and never installed: downloaded with an apt state of its own, so that
# the machine's package sources stay as they are, and unpacked into the cache: the kernel, and those
# modules that a virtual disk needs, in the order in which they are loaded. Source it after common.sh.

KERNEL_MODULES=(virtio_pci virtio_blk ext4)

# The Debian release in which a kernel series is found.
kernel_suite() {
  case $1 in
    6.1) echo bookworm ;;
    6.12) echo bookworm-backports ;;
    *) fail "no Debian release with kernel '$1' is known here: --kernel 6.1 or --kernel 6.12" ;;
  esac
}

# The mirror that this machine uses already.
debian_mirror() {
  local mirror
  # shellcheck disable=SC2016  # apt fills these in
  mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    sed -n 's/^Debian Debian //p' | head -n 1) || true
  [[ -n $mirror ]] || {
    echo "apt knows no Debian mirror here: see /etc/apt/sources.list"
    return 1
  }
  echo "$mirror"
}

# apt_at DIRECTORY SUITE: sets APT, options that give apt-get and apt-cache sources of their own.
apt_at() {
  local at=$1 suite=$2 keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  [[ -r $keyring ]] || {
    echo "$keyring is not here: apt-get install debian-archive-keyring"
    return 1
  }
  local mirror
  mirror=$(debian_mirror) || {
    echo "$mirror"
    return 1
  }
  mkdir -p -- "$at/lists/partial" "$at/cache/archives/partial"
  echo "deb [arch=amd64 signed-by=$keyring] $mirror $suite main" >"$at/sources.list"
  APT=(-qq -o Dir::Etc::sourcelist="$at/sources.list" -o Dir::Etc::sourceparts=-
    -o Dir::State::lists="$at/lists" -o Dir::Cache="$at/cache" -o APT::Sandbox::User="$(id -un)")
}

# download_kernel DIRECTORY SERIES: leaves the package there. Says what went wrong on stdout.
download_kernel() {
  local at=$1 suite package
  suite=$(kernel_suite "$2")
  apt_at "$at" "$suite" || return 1
  apt-get "${APT[@]}" -o APT::Update::Error-Mode=any update 2>&1 || return 1
  package=$(apt-cache "${APT[@]}" depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: //p' | head -n 1)
  [[ $package == linux-image-$2.* ]] || {
    echo "$suite has kernel '${package:-none}', not $2"
    return 1
  }
  (cd -- "$at" && apt-get "${APT[@]}" download "$package" 2>&1)
}

# unpack_kernel DIRECTORY TARGET: the package's kernel and the modules.
unpack_kernel() {
  local at=$1 target=$2 release module path number=10
  dpkg-deb -x "$at"/linux-image-*.deb "$at/root"
  release=$(basename -- "$at"/root/lib/modules/*)
  depmod -b "$at/root" "$release"
  mkdir -p -- "$target/modules"
  mv -- "$at/root/boot/vmlinuz-$release" "$target/vmlinuz"
  # One line per module, what it needs before it: "insmod /path" or "builtin name".
  for module in "${KERNEL_MODULES[@]}"; do
    modprobe -d "$at/root" -S "$release" --show-depends "$module"
  done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' | while read -r path; do
    module=$(basename -- "${path%.xz}")
    case $path in
      *.xz) xz -dc -- "$path" >"$target/modules/$number-$module" ;;
      *) cp -- "$path" "$target/modules/$number-$module" ;;
    esac
    number=$((number + 1))
  done
  echo "$release" >"$target/release"
}

# find_kernel 6.1: sets KERNEL to a folder with vmlinuz, modules/ and release. The first time it
# downloads about 30 MB. Returns 1, with the reason in KERNEL_MISSING, when there is none.
find_kernel() {
  local series=$1 work log
  KERNEL=$WP_CACHE/kernels/$series
  [[ ! -e $KERNEL/release ]] || return 0
  kernel_suite "$series" >/dev/null
  mkdir -p -- "$WP_CACHE/kernels"
  work=$(mktemp -d -p "$WP_CACHE/kernels")
  say "downloading Debian's $series kernel (once): $KERNEL" >&2
  if ! log=$(download_kernel "$work" "$series"); then
    KERNEL_MISSING="Debian's $series kernel cannot be had: $(grep -m 1 . <<<"$log")"
    rm -rf -- "$work"
    return 1
  fi
  unpack_kernel "$work" "$work/unpacked"
  mv -T -- "$work/unpacked" "$KERNEL"
  rm -rf -- "$work"
}

# What builds modules for that kernel: its headers, and the programs that they use.
download_headers() {
  local at=$1 series=$2 release=$3 common=${3%-cloud-amd64} kbuild
  apt_at "$at" "$(kernel_suite "$series")" || return 1
  apt-get "${APT[@]}" -o APT::Update::Error-Mode=any update 2>&1 || return 1
  kbuild=$(apt-cache "${APT[@]}" depends "linux-headers-$release" | sed -n 's/^ *Depends: \(linux-kbuild-.*\)/\1/p')
  (cd -- "$at" && apt-get "${APT[@]}" download "linux-headers-$release" "linux-headers-$common-common" "$kbuild" 2>&1)
}

# find_headers 6.1: after find_kernel, sets HEADERS to the folder that modules for that kernel are built against
# (make -C "$HEADERS" M=…). The first time it downloads about 15 MB. Returns 1, with the reason in
# KERNEL_MISSING, when there are none.
find_headers() {
  local series=$1 release at work log package
  release=$(cat -- "$KERNEL/release")
  at=$KERNEL/headers-$release
  HEADERS=$at/usr/src/linux-headers-$release
  [[ ! -e $at/complete ]] || return 0
  work=$(mktemp -d -p "$WP_CACHE/kernels")
  say "downloading the headers of $release (once): $at" >&2
  if ! log=$(download_headers "$work" "$series" "$release"); then
    KERNEL_MISSING="the headers of $release cannot be had: $(grep -m 1 '^E:' <<<"$log")"
    rm -rf -- "$work"
    return 1
  fi
  rm -rf -- "$at"
  for package in "$work"/*.deb; do dpkg-deb -x "$package" "$at"; done
  rm -rf -- "$work"
  # They think that they lie in /usr.
  sed -i "s|/usr/src/|$at/usr/src/|g" "$HEADERS/Makefile"
  touch -- "$at/complete"
}
