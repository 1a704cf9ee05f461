{{/* Directories of the layouts, as JSON. Sources: each distribution's own configuration of containerd. */}}
{{- define "ebb.layout" -}}
{{- $layouts := dict
  "containerd" (dict "socket" "/run/containerd/containerd.sock" "root" "/var/lib/containerd" "kubelet" "/var/lib/kubelet")
  "k3s" (dict "socket" "/run/k3s/containerd/containerd.sock" "root" "/var/lib/rancher/k3s/agent/containerd" "kubelet" "/var/lib/kubelet")
  "rke2" (dict "socket" "/run/k3s/containerd/containerd.sock" "root" "/var/lib/rancher/rke2/agent/containerd" "kubelet" "/var/lib/kubelet")
  "microk8s" (dict "socket" "/var/snap/microk8s/common/run/containerd.sock" "root" "/var/snap/microk8s/common/var/lib/containerd" "kubelet" "/var/snap/microk8s/common/var/lib/kubelet")
  "k0s" (dict "socket" "/run/k0s/containerd.sock" "root" "/var/lib/k0s/containerd" "kubelet" "/var/lib/k0s/kubelet")
-}}
{{- $a := .Values.agent -}}
{{- $l := get $layouts $a.layout -}}
{{- $socket := dig "runtime" "socket" "auto" $a.config -}}
{{- if eq $socket "auto" -}}{{- $socket = $l.socket -}}{{- end -}}
{{- dict
  "socket" ($a.containerd.socket | default $socket)
  "root" ($a.containerd.root | default $l.root)
  "kubelet" ($a.kubeletRoot | default (dig "filesystems" "kubelet" "path" $l.kubelet $a.config))
  | toJson -}}
{{- end }}

{{/* The agent's whole configuration. What the pod mounts is read from it again. */}}
{{- define "ebb.agentConfig" -}}
{{- $c := deepCopy .Values.agent.config -}}
{{- $l := include "ebb.layout" . | fromJson -}}
{{- $images := get $c "images" | default dict -}}
{{- $_ := set $images "keep" (append (get $images "keep" | default list) (include "ebb.imageName" .) | uniq) -}}
{{- $_ := set $c "images" $images -}}
{{- $_ := set $c "mode" .Values.agent.mode -}}
{{- $runtime := get $c "runtime" | default dict -}}
{{- $_ := set $runtime "socket" $l.socket -}}
{{- $_ := set $c "runtime" $runtime -}}
{{- $filesystems := get $c "filesystems" | default dict -}}
{{- $kubelet := get $filesystems "kubelet" | default dict -}}
{{- $_ := set $kubelet "path" $l.kubelet -}}
{{- $_ := set $filesystems "kubelet" $kubelet -}}
{{- $_ := set $c "filesystems" $filesystems -}}
{{- $server := dict
  "address" (printf "%s:%v" (ternary "" "127.0.0.1" .Values.agent.metrics.open) .Values.agent.metrics.port)
  "healthAddress" (printf "%s:%v" (ternary "127.0.0.1" "" .Values.agent.hostNetwork) .Values.agent.health.port)
  "webConfigFile" (include "ebb.webConfig" .Values.agent.metrics.webConfigSecret) -}}
{{- $_ := set $c "server" $server -}}
{{- $pods := get $c "pods" | default dict -}}
{{- if eq (get $pods "source" | default "none") "kubelet" -}}
{{- $_ := set $pods "kubelet" (mergeOverwrite (dict "tokenFile" "/var/run/secrets/kubernetes.io/serviceaccount/token") (get $pods "kubelet" | default dict)) -}}
{{- end -}}
{{- if not .Values.agent.events.enabled -}}
{{- $_ := set $pods "apiserver" (mergeOverwrite (get $pods "apiserver" | default dict) (dict "events" false)) -}}
{{- $_ := set $c "pods" $pods -}}
{{- end -}}
{{- toYaml $c -}}
{{- end }}

{{/* What the agent mounts and may do, as JSON: read from its configuration, with ebb-agent's own defaults. */}}
{{- define "ebb.agentNeeds" -}}
{{- $c := include "ebb.agentConfig" . | fromYaml -}}
{{- $kernel := dig "kernel" "enabled" true $c -}}
{{- $removesLogs := and (eq $c.mode "enforce") (dig "containers" "enabled" true $c) (dig "containers" "logs" true $c) -}}
{{- $capabilities := list "DAC_READ_SEARCH" "FOWNER" -}}
{{- if $kernel -}}{{- $capabilities = concat (list "BPF" "PERFMON" "SYS_ADMIN") $capabilities -}}{{- end -}}
{{- if .Values.agent.hostPID -}}{{- $capabilities = append $capabilities "SYS_PTRACE" -}}{{- end -}}
{{- dict
  "kernel" $kernel
  "capabilities" (.Values.agent.capabilities | default $capabilities)
  "podLogs" (dig "filesystems" "podLogs" "path" "/var/log/pods" $c)
  "logLinks" (dig "containers" "logLinks" "/var/log/containers" $c)
  "removesLogs" $removesLogs
  "state" (dig "state" "directory" "/var/lib/ebb" $c)
  "lock" (dir (dig "state" "lockFile" "/run/ebb/agent.lock" $c))
  "pins" (dig "kernel" "pinDirectory" "/sys/fs/bpf/ebb" $c)
  "socketDirectory" (dir $c.runtime.socket)
  "root" (include "ebb.layout" . | fromJson).root
  "kubelet" $c.filesystems.kubelet.path
  "pauseFile" (dig "pauseFile" "/etc/ebb-pause/pause" $c)
  "source" (dig "pods" "source" "none" $c)
  "events" (and (eq (dig "pods" "source" "none" $c) "apiserver") (dig "pods" "apiserver" "events" true $c))
  | toJson -}}
{{- end }}

{{/* The kubelet probes from the node's network. */}}
{{- define "ebb.agentProbe" -}}
httpGet:
  path: {{ .path }}
  port: health
  {{- if .hostNetwork }}
  host: 127.0.0.1
  {{- end }}
{{- end }}

{{/* The name of a DaemonSet of agents and of its ConfigMap. */}}
{{- define "ebb.agentSet" -}}{{ include "ebb.agent" . }}{{ with .profile }}-{{ . }}{{ end }}{{- end }}

{{/* agent.affinity; agents without a profile leave the nodes of each profile out. */}}
{{- define "ebb.agentAffinity" -}}
{{- $affinity := deepCopy .Values.agent.affinity -}}
{{- if and .Values.agent.profiles (not .profile) -}}
{{- $others := dict "key" "ebb/profile" "operator" "NotIn" "values" (keys .Values.agent.profiles | sortAlpha) -}}
{{- $terms := list -}}
{{- range dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" (list dict) $affinity -}}
{{- $terms = append $terms (set . "matchExpressions" (append (.matchExpressions | default list) $others)) -}}
{{- end -}}
{{- $required := dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) -}}
{{- $affinity = mergeOverwrite $affinity (dict "nodeAffinity" $required) -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end }}
