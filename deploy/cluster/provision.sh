#!/usr/bin/env bash
# Makes a Debian 12 machine a one-node Kubernetes cluster with ebb on it: etcd, API
# server, controller manager, scheduler, kubelet, kube-proxy, containerd and Prometheus.
# ebb collects images here, not the kubelet. The controller manager runs without the
# collectors that ebb-controller replaces: until ebb-controller enforces, nothing does
# their work. For trying ebb and for tests: nothing here is hardened against users who
# can log in to the machine.
#
# usage: deploy/cluster/provision.sh --bin DIR [OPTION]... [STEP]...
#   --bin DIR          etcd, kube-*, kubelet and kubectl (tools/peers/build makes them)
#   --images FILE      an archive of images to load; may be given several times
#   --manifests DIR    manifests of ebb to apply, with those in DIR/controller; without it, no ebb
#   --rules FILE       rules for Prometheus (deploy/prometheus/rules.yaml); may be given several times
#   --node-name NAME   default: the host's name
#   --node-ip IP       default: the address of the default route
#   --cgroup-root PATH pods' cgroups go below it (default: /)
#   --image-gc PERCENT the kubelet's imageGCHighThresholdPercent (default 100: handed over)
#   --controllers LIST the kube-controller-manager's --controllers (default: all but those handed over)
#   --start WAY        systemd (default), or direct: as children of process 1
#   --no-packages      the needed Debian packages are installed already
# Steps, all unless named: packages certificates configuration services cluster images
# ebb prometheus. Each can be repeated. And, by name: kubelet, with a new configuration;
# controller-manager, with other --controllers.
#
# Vagrantfile runs this in a virtual machine, make e2e-cluster in namespaces.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin= manifests= node= ip= root=/ image_gc=100 start=systemd packages=yes
images=() rules=() steps=()
# docs/cascade.md and docs/collectors.md say how each job is handed over and back.
controllers=*,-garbage-collector-controller,-pod-garbage-collector-controller
controllers+=,-ttl-after-finished-controller,-certificatesigningrequest-cleaner-controller
fail() { echo "provision.sh: $*" >&2; exit 1; }
while [ $# -gt 0 ]; do
	case $1 in
	--no-packages) packages=no; shift; continue ;;
	-*) [ $# -gt 1 ] || fail "$1: needs a value" ;;
	*) steps+=("$1"); shift; continue ;;
	esac
	case $1 in
	--bin) bin=$2 ;;
	--images) images+=("$2") ;;
	--manifests) manifests=$2 ;;
	--rules) rules+=("$2") ;;
	--node-name) node=$2 ;;
	--node-ip) ip=$2 ;;
	--cgroup-root) root=$2 ;;
	--image-gc) image_gc=$2 ;;
	--controllers) controllers=$2 ;;
	--start) start=$2 ;;
	*) fail "$1: not an option; see the head of $0" ;;
	esac
	shift 2
done
[ "$(id -u)" = 0 ] || fail "needs root"
[ -x "$bin/kubelet" ] || fail "--bin ${bin:-missing}: no kubelet there; see tools/peers/build"
case $start in systemd | direct) ;; *) fail "--start $start: systemd or direct" ;; esac
[ ${#steps[@]} -gt 0 ] || steps=(packages certificates configuration services cluster images ebb prometheus)
: "${node:=$(hostname)}"
[ -n "$ip" ] || ip=$(ip -4 route get 192.0.2.1 | sed -n 's/.* src \([0-9.]*\).*/\1/p')
[ -n "$ip" ] || fail "no default route to take the node's address from; give --node-ip"

readonly services_net=10.96.0.0/16 first_service=10.96.0.1 pods_net=10.88.0.0/16
readonly api=https://$ip:6443 sandbox=node.test/pause:1
pki=/etc/kubernetes/pki
export PATH="$bin:$PATH" KUBECONFIG=/etc/kubernetes/admin.conf

packages() {
	[ $packages = yes ] || return 0
	"$here/../../tools/need.sh" containerd runc containernetworking-plugins iptables nftables \
		openssl iproute2 kmod prometheus
}

. "$here/certificates.sh"
. "$here/configuration.sh"
. "$here/services.sh"
. "$here/prometheus.sh"

# cluster waits until the API server and the node are ready, long enough for an emulated
# machine.
cluster() {
	until_works 300 kubectl get --raw /readyz
	until_works 300 kubectl wait --for=condition=Ready "node/$node" --timeout=60s
	# The API server refuses pods without a ServiceAccount.
	until_works 300 kubectl get serviceaccount default
}

# images imports images, because there is no registry. The label in the archive keeps
# the kubelet from collecting the sandbox image.
images() {
	local archive
	for archive in "${images[@]}"; do
		ctr --namespace k8s.io images import "$archive" >/dev/null
	done
}

ebb() {
	[ -n "$manifests" ] || return 0
	local dir
	for dir in "$manifests" "$manifests/controller"; do
		[ ! -d "$dir" ] || kubectl apply --server-side -f "$dir"
	done
}

for step in "${steps[@]}"; do
	case $step in
	packages | certificates | configuration | services | cluster | images | ebb | prometheus | kubelet | controller-manager) "$step" ;;
	*) fail "$step: not a step; see the head of $0" ;;
	esac
done
