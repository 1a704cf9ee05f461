#!/bin/sh
# Writes the metrics endpoints of ebb's pods to a file for Prometheus; part of
# provision.sh.
set -eu
export KUBECONFIG=/etc/kubernetes/admin.conf
mkdir -p /run/ebb-targets
cd /run/ebb-targets

# One target for each pod with an address. A pod's first port is its metrics port.
template='{{range .items}}{{if .status.podIP}}{{$c := index .metadata.labels "app.kubernetes.io/component"}}{"targets": ["{{.status.podIP}}:'
template=$template'{{(index (index .spec.containers 0).ports 0).containerPort}}"], "labels": {"job": "ebb-{{$c}}", '
template=$template'{{if eq $c "agent"}}"node": "{{.spec.nodeName}}"{{else}}"pod": "{{.metadata.name}}"{{end}}}}
{{end}}{{end}}'

while :; do
	# Without an answer of the API server, the targets stay.
	if kubectl get pods --all-namespaces --selector 'app.kubernetes.io/name=ebb,app.kubernetes.io/component in (agent, controller)' \
		--output "go-template=$template" >pods; then
		sed '1s/^/[/; $!s/$/,/; $s/$/]/' pods >new
		# Without pods the list is empty, but still a list.
		[ -s new ] || echo '[]' >new
		# Prometheus reads the file again when it changes.
		cmp -s new targets.json || mv new targets.json
	fi
	sleep 2
done
