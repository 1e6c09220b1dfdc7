# shellcheck shell=bash
# How scripts build: a new folder quickly, and with progress that is shown. Source it after common.sh.

# configure PRESET: prepares build/PRESET. A new folder is built with several files as one, in half the
# time. One that is there stays as it is: after a change to one file, one file is compiled.
configure() {
  local how=()
  [[ -e $WP_ROOT/build/$1/CMakeCache.txt ]] || how=(-DCMAKE_UNITY_BUILD=ON)
  cmake --preset "$1" "${how[@]}"
}

# build_with_progress LOG PRESET TARGET…: what the tools say goes to LOG.
build_with_progress() {
  local log=$1 preset=$2
  shift 2
  configure "$preset" >"$log" 2>&1 || return
  NINJA_STATUS='%f %t %e ' cmake --build --preset "$preset" --target "$@" 2>&1 | tee -a "$log" | show_progress
}

# Reads ninja's lines, which open with steps finished, all steps and seconds. A terminal shows one line,
# which is written anew with each step; a file gets a line for every tenth of the steps.
show_progress() {
  local finished steps seconds what line tenth=0
  while read -r finished steps seconds what; do
    [[ $seconds =~ ^[0-9]+\. && $finished -gt 0 && $what != Re-* ]] || continue
    line="$((100 * finished / steps)) % built, about $(time_left "${seconds%.*}" "$finished" "$steps") left"
    if [[ -t 1 ]]; then
      printf '\r\033[K   %s' "$line"
    elif ((10 * finished / steps > tenth)); then
      tenth=$((10 * finished / steps))
      note "$line"
    fi
  done
  [[ ! -t 1 || -z ${line:-} ]] || echo
}

# time_left SECONDS FINISHED STEPS: what the remaining steps take if they take as long as those before.
time_left() {
  local left=$(($1 * ($3 - $2) / $2))
  if ((left < 100)); then echo "$left s"; else echo "$(((left + 30) / 60)) min"; fi
}
