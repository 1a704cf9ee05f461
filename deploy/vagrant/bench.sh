#!/bin/sh
# Runs one benchmark in a machine that Vagrant made, in a short form. Its result goes to
# /var/tmp/bench/results, where neither rsync nor a reboot touches it.
#
# usage: deploy/vagrant/bench.sh node|reaction|probes
#        EBB_BOX=... names the box in the result
set -eu

bench=$(realpath "$(dirname "$0")/../../bin/vagrant-bench")
[ -x "$bench/$1" ] || { echo "bench.sh: first, on the host: make vagrant-bench BENCH=$1" >&2; exit 1; }
packages=$("$(dirname "$0")/box.sh" --packages) # the box of make vagrant-box has them
# shellcheck disable=SC2086 # one word each
dpkg-query --show $packages >/dev/null 2>&1 || { apt-get --quiet update && apt-get --quiet --yes install $packages; }
[ "$(systemd-detect-virt)" = qemu ] && slow=8 || slow=1 # qemu without KVM
case $1 in
node) set -- node -agent "$bench/ebb-agent" -only ebb,eviction -repeats 5 -evictions 5 -slow $slow ;;
reaction) set -- reaction -agent "$bench/ebb-agent" -runs 20 ;;
probes) set -- probes -pairs 20 -crossings 60 -steps 300 -spurious-gib 1 ;;
*) echo "bench.sh: no benchmark $1: node, reaction or probes" >&2; exit 1 ;;
esac
program=$1
shift
cd /vagrant
EBB_PEERS=$bench EBB_CONTAINERD=$bench exec "$bench/$program" -results /var/tmp/bench/results "$@"
