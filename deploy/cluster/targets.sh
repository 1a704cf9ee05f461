#!/bin/sh
# Writes down, for Prometheus, where ebb's pods serve metrics; part of provision.sh.
set -eu
export KUBECONFIG=/etc/kubernetes/admin.conf
mkdir -p /run/ebb-targets
cd /run/ebb-targets

# A target for each pod with an address; its first port is that of metrics.
template='{{range .items}}{{if .status.podIP}}{{$c := index .metadata.labels "app.kubernetes.io/component"}}{"targets": ["{{.status.podIP}}:'
template=$template'{{(index (index .spec.containers 0).ports 0).containerPort}}"], "labels": {"job": "ebb-{{$c}}", '
template=$template'{{if eq $c "agent"}}"node": "{{.spec.nodeName}}"{{else}}"pod": "{{.metadata.name}}"{{end}}}}
{{end}}{{end}}'

while :; do
	kubectl get pods --all-namespaces --selector 'app.kubernetes.io/name=ebb,app.kubernetes.io/component in (agent, controller)' \
		--output "go-template=$template" | sed '1s/^/[/; $!s/$/,/; $s/$/]/' >new
	# An empty list is one, too.
	[ -s new ] || echo '[]' >new
	# Prometheus reads it again when it changes.
	cmp -s new targets.json || mv new targets.json
	sleep 2
done
