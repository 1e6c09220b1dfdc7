# shellcheck shell=bash disable=SC2034  # what is set here is used by those that source it
# Debian's Darknet as an engine: the program that drives it, and a network of random weights. Source it after engine.sh.

DARKNET=/usr/lib/darknet

# Sets DARKNET_PASSES; 1 when it cannot be had here. bench/engines/darknet_passes.c
find_darknet() {
  local source=$WP_ROOT/bench/engines/darknet_passes.c
  DARKNET_PASSES=$WP_CACHE/darknet_passes
  [[ -e $DARKNET/libdarknet.so ]] || return 1
  [[ $DARKNET_PASSES -nt $source ]] && return
  mkdir -p "$WP_CACHE"
  cc -O2 -w -I"$DARKNET/include" -o "$DARKNET_PASSES.$$" "$source" -L"$DARKNET" -ldarknet "-Wl,-rpath,$DARKNET" &&
    mv -- "$DARKNET_PASSES.$$" "$DARKNET_PASSES"
}

# Prints a folder with network.cfg and network.weights: YOLOv3 on pictures so small that a pass takes a second.
darknet_network() {
  local folder=$WP_CACHE/models/yolov3-small
  if [[ ! -d $folder ]]; then
    rm -rf -- "$folder.part"
    mkdir -p "$folder.part"
    "$WEIGHTPAGER" model make --net yolov3 -o "$folder.part" >&2 || return 1
    sed -E 's/^ *(width|height) *=.*/\1=64/' "$folder.part/yolov3.cfg" >"$folder.part/network.cfg"
    mv -- "$folder.part/yolov3.weights" "$folder.part/network.weights"
    mv -- "$folder.part" "$folder"
  fi
  echo "$folder"
}
