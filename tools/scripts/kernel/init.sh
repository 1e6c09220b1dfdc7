#!/bin/sh
# The first process of the machine that tools/scripts/kernel_test.sh boots: mounts its disk, runs the tests
# from it and says how each ended, in lines that kernel_test.sh looks for. Ends by power-off.
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /disk
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in /modules/*.ko; do
  [ ! -e "$module" ] || insmod "$module"
done
mount -t ext4 /dev/vda /disk || poweroff -f
for folder in proc sys dev; do
  mkdir -p /disk/$folder
  mount --bind /$folder /disk/$folder
done
mkdir -p /disk/tmp /disk/run /disk/dev/shm
mount -t tmpfs tmpfs /disk/run
mount -t tmpfs tmpfs /disk/dev/shm
chmod 1777 /disk/tmp
hostname kernel-test
# shellcheck disable=SC1091  # written by kernel_test.sh
. /disk/environment
# What every thread of a test that does not end is doing in the kernel: where it hangs can seldom be seen twice.
say_where_it_hangs() {
  echo "no end after $TEST_LIMIT_SECONDS s; threads, their system calls (/proc/PID/syscall) and stacks:"
  for thread in /proc/[0-9]*/task/[0-9]*; do
    # Kernel threads have no command line.
    if [ -z "$(head -c 1 "$thread/cmdline" 2>/dev/null)" ] || [ "${thread%%/task/*}" = /proc/1 ]; then
      continue
    fi
    echo "$thread $(cat "$thread/comm"): $(cat "$thread/syscall")"
    cat "$thread/stack"
  done
}

number=0
while read -r test <&3; do
  number=$((number + 1))
  echo "weightpager-test $number begins: $test"
  # In a folder of the disk, where direct reads work.
  setsid chroot /disk /bin/bash -c "cd /scratch && $test" </dev/null 2>&1 &
  child=$!
  (
    sleep "$TEST_LIMIT_SECONDS"
    say_where_it_hangs
    kill -KILL "-$child"
  ) &
  watcher=$!
  wait "$child"
  status=$?
  kill "$watcher" 2>/dev/null
  echo "weightpager-test $number ended with status $status"
done 3</disk/tests
poweroff -f
