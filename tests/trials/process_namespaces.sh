#!/usr/bin/env bash
# An engine whose /proc is another process namespace's, as in containers inside containers: the numbers
# that it knows itself by are other processes' there. One of these has another model open under the
# number that the engine's descriptor has.
set -eu
# shellcheck source=tests/trials/lib/trials.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/trials.sh"
unshare --pid --fork --mount-proc unshare --pid --fork true 2>/dev/null ||
  skip "no right to make process namespaces here"
make_model
write_model "$SCRATCH/other.gguf" 2

# In the outer namespace process 1 has the other model open as descriptor 3, in the inner one process
# 1 is the engine, whose first descriptor is 3.
cat >"$SCRATCH/nested" <<END
#!/usr/bin/env bash
exec unshare --pid --fork --mount-proc bash -c '
  exec 3<"$SCRATCH/other.gguf"
  unshare --pid --fork "\$@" 3<&-
  exit \$?' -- "$ENGINE" "\$@"
END
chmod +x "$SCRATCH/nested"
ENGINE=$SCRATCH/nested

# Some trials use the model up.
prepare() { [[ -e $MODEL ]] || make_model; }

trial 0 plain
trial 0 fork-of-fork
trial 0 deleted-in-child
finish
