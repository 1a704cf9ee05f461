{{/* The controller's whole configuration. */}}
{{- define "ebb.controllerConfig" -}}
{{- $c := deepCopy .Values.controller.config -}}
{{- $_ := set $c "mode" .Values.controller.mode -}}
{{- $election := get $c "leaderElection" | default dict -}}
{{- $_ := set $election "namespace" .Release.Namespace -}}
{{- $_ := set $election "name" (include "ebb.controller" .) -}}
{{- $_ := set $c "leaderElection" $election -}}
{{- $server := get $c "server" | default dict -}}
{{- $_ := set $server "address" (printf ":%v" .Values.controller.metrics.port) -}}
{{- $_ := set $server "healthAddress" (printf ":%v" .Values.controller.health.port) -}}
{{- $_ := set $server "webConfigFile" (include "ebb.webConfig" .Values.controller.metrics.webConfigSecret) -}}
{{- $_ := set $c "server" $server -}}
{{- toYaml $c -}}
{{- end }}

{{/* The mode of the collector of owners. YAML makes false of a bare off. */}}
{{- define "ebb.ownersMode" -}}
{{- dig "collectors" "owners" "mode" "enforce" .Values.controller.config | toString | replace "false" "off" -}}
{{- end }}
