#!/bin/sh
# The first process of the machine that tools/kernel_test.sh boots: mounts its disk, runs the tests
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
number=0
while read -r test <&3; do
  number=$((number + 1))
  echo "weightpager-test $number begins: $test"
  # In a folder of the disk, where direct reads work.
  timeout -s KILL "$TEST_LIMIT_SECONDS" \
    chroot /disk /bin/bash -c "cd /scratch && $test" </dev/null 2>&1
  echo "weightpager-test $number ended with status $?"
done 3</disk/tests
poweroff -f
