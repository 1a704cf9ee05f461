#!/bin/bash
# Makes the machines of Vagrantfile from nothing, as docs/vagrant.md says, tries them, and destroys
# them. Half an hour with KVM, otherwise an hour and a half.
#
# usage: make test-vagrant
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() { echo "test.sh: $*" >&2; exit 1; }
run() { echo "# $*"; "$@"; }
left() { virsh --quiet list --all --name; virsh --quiet vol-list default 2>/dev/null | awk '{print $1}'; find .vagrant/machines -name id 2>/dev/null; }
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
before_up=$(mktemp)
run vagrant up bench
[ "$result" -nt "$before_up" ] || fail "no new $result"
cp "$result" "$before_up"
run vagrant reload bench
cmp "$result" "$before_up" || fail "$result is another one after a reload"
rm "$before_up"
run vagrant destroy --force bench

trap - EXIT
box=$(basename "$(virsh --quiet vol-list default 2>/dev/null | awk '/vagrant_box_image/ {print $1; exit}')") # of make vagrant-box: stays
diff <(echo "$before" | grep -vxF "$box") <(left | grep -vxF "$box") || fail "vagrant destroy left something behind"
