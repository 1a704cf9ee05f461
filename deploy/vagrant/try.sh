#!/bin/bash
# Shows what ebb does in the machine of "vagrant up", and fails if it does not: a Pod goes with
# its Deployment, and unused images leave a full disk. docs/vagrant.md has a run.
#
# usage: vagrant ssh ebb -c 'sudo -i /vagrant/deploy/vagrant/try.sh'
set -euo pipefail

fail() { echo "try.sh: $*" >&2; exit 1; }
run() { echo "+ $*"; "$@"; }
used() { df --output=pcent /var/lib/containerd | tr -dc '0-9'; } # percent
[ "$(id -u)" = 0 ] || fail "needs root"

run systemd-detect-virt || true # fails on "none"
run kubectl get nodes -o wide
run kubectl get pods --all-namespaces
run ebb status || true # its output is useful also if something is wrong
run kubectl --namespace ebb-system exec daemonset/ebb-agent -- /usr/bin/ebb-agent report

run kubectl create deployment web --image=node.test/app:1
run kubectl rollout status deployment/web --timeout=15m
run kubectl get pods --selector=app=web
run kubectl delete deployment web
for _ in {1..300}; do
	[ -n "$(kubectl get pods --selector=app=web --output=name)" ] || break
	sleep 1
done
run kubectl get pods --selector=app=web 2>&1
[ -z "$(kubectl get pods --selector=app=web --output=name)" ] || fail "the Pod of the Deployment is there after 5 minutes"

# Beyond the high threshold, 80 % by default. ebb has 10 minutes, because young images stay.
size=$(df --output=size --block-size=1 /var/lib/containerd | tail -n 1)
free=$(df --output=avail --block-size=1 /var/lib/containerd | tail -n 1)
run df -h /var/lib/containerd
trap 'rm -f /var/lib/containerd/full' EXIT
run fallocate --length $((free - size * 13 / 100)) /var/lib/containerd/full
begin=$(date +%s%N)
until [ "$(used)" -le 80 ]; do
	[ $(($(date +%s%N) - begin)) -lt 600000000000 ] || fail "the disk is $(used) % full after 10 minutes"
	sleep 0.1
done
echo "$(used) % after $((($(date +%s%N) - begin) / 1000000)) ms"
run df -h /var/lib/containerd
run ebb history --limit 8
