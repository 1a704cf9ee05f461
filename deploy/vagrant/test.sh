#!/bin/bash
# Makes the machines of Vagrantfile from nothing, as docs/vagrant.md says, tries them, and destroys
# them. It takes half an hour where all is emulated.
#
# usage: make test-vagrant
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() { echo "test.sh: $*" >&2; exit 1; }
run() { echo "# $*"; "$@"; }
# left lists machines, their disks and Vagrant's records of them. libvirt's copy of the box stays.
left() {
	virsh --quiet list --all --name | grep . || true
	virsh --quiet vol-list default 2>/dev/null | awk '!/vagrant_box_image/ {print $1}'
	find .vagrant/machines -name id 2>/dev/null || true
}
[ "$(id -u)" = 0 ] || fail "needs root"
virsh list >/dev/null || fail "no libvirt; first: systemctl start libvirtd"
[ -z "$(vagrant status --machine-readable | grep -F ,state, | grep -v ,not_created)" ] ||
	fail "there are machines of this folder; first: vagrant destroy --force"
before=$(left)
trap 'vagrant destroy --force >/dev/null' EXIT

export VAGRANT_NO_COLOR=1
run vagrant up ebb
run vagrant ssh ebb -c 'sudo -i /vagrant/deploy/vagrant/try.sh'
run vagrant destroy --force ebb

result=bench/results/vagrant-${BENCH:=node}.json
export BENCH
begun=$(mktemp)
run vagrant up bench
[ "$result" -nt "$begun" ] || fail "no new $result"
rm "$begun"
run vagrant reload bench
vagrant ssh bench -c "cat /var/tmp/bench/results/$BENCH.json" | cmp - "$result" || fail "the machine has lost its result"
run vagrant destroy --force bench

trap - EXIT
[ "$(left)" = "$before" ] || fail "vagrant destroy left something behind: $(left)"
