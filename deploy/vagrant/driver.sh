#!/bin/sh
# Prints the libvirt driver for a machine here: kvm, or qemu, which emulates. /dev/kvm can
# exist and not work, for example in machines that are virtual themselves: firmware runs
# and Linux hangs. So this script boots a kernel until it finds no disk.
#
# usage: deploy/vagrant/driver.sh KERNEL
set -eu

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Where KVM works, it takes a second or two.
timeout 20 qemu-system-x86_64 -accel kvm -cpu host -machine q35 -m 512 -nodefaults -display none -no-reboot \
	-serial "file:$log" -kernel "$1" -append 'console=ttyS0 panic=-1' >/dev/null 2>&1 || true
if grep -q 'not syncing: VFS' "$log"; then
	echo kvm
else
	echo qemu
fi
