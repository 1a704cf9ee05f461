{{/* What names of objects begin with: short enough for what comes behind it. */}}
{{- define "ebb.name" -}}
{{- $name := .Values.nameOverride | default "ebb" -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $full | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "ebb.agent" -}}{{ include "ebb.name" . }}-agent{{- end }}
{{- define "ebb.controller" -}}{{ include "ebb.name" . }}-controller{{- end }}

{{/* Names of the service accounts. */}}
{{- define "ebb.agentAccount" -}}{{ .Values.agent.serviceAccount.name | default (include "ebb.agent" .) }}{{- end }}
{{- define "ebb.controllerAccount" -}}{{ .Values.controller.serviceAccount.name | default (include "ebb.controller" .) }}{{- end }}

{{/* What a selector must never change, and what the command ebb finds pods by: dict "root" . "component" "agent" */}}
{{- define "ebb.selector" -}}
app.kubernetes.io/name: ebb
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "ebb.labels" -}}
{{ include "ebb.selector" . }}
app.kubernetes.io/part-of: ebb
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* image.repository, at the registry that is given for this image or for all. */}}
{{- define "ebb.repository" -}}
{{- $r := .Values.image.repository -}}
{{- $registry := .Values.image.registry | default (dig "imageRegistry" "" (.Values.global | default dict)) -}}
{{- if $registry -}}
{{- $first := first (splitList "/" $r) -}}
{{- if and (contains "/" $r) (or (contains "." $first) (contains ":" $first) (eq $first "localhost")) -}}
{{- $r = trimPrefix (printf "%s/" $first) $r -}}
{{- end -}}
{{ printf "%s/%s" $registry $r }}
{{- else -}}
{{ $r }}
{{- end -}}
{{- end }}

{{- define "ebb.image" -}}
{{ include "ebb.repository" . }}{{ with .Values.image }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}{{ end }}
{{- end }}

{{/*
The name by which containerd knows the image: "ebb" is docker.io/library/ebb, and
"me/ebb" docker.io/me/ebb (a first part without dot or colon is no host).
*/}}
{{- define "ebb.imageName" -}}
{{- $r := include "ebb.repository" . -}}
{{- $first := first (splitList "/" $r) -}}
{{- if not (contains "/" $r) -}}docker.io/library/{{ $r }}
{{- else if or (contains "." $first) (contains ":" $first) (eq $first "localhost") -}}{{ $r }}
{{- else -}}docker.io/{{ $r }}
{{- end -}}
{{- end }}

{{- define "ebb.pullSecrets" -}}
{{- $names := .Values.image.pullSecrets -}}
{{- range .Values.imagePullSecrets }}{{- $names = append $names .name }}{{- end -}}
{{- with uniq $names }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Where the API server is, if not where the kubelet says. */}}
{{- define "ebb.apiServer" -}}
{{- with .Values.apiServer.host }}
- name: KUBERNETES_SERVICE_HOST
  value: {{ . | quote }}
{{- end }}
{{- with .Values.apiServer.port }}
- name: KUBERNETES_SERVICE_PORT
  value: {{ . | quote }}
{{- end }}
{{- end }}

{{/* Annotations of a hook: dict "hook" "pre-delete" "weight" -5 */}}
{{- define "ebb.hook" -}}
helm.sh/hook: {{ .hook }}
helm.sh/hook-weight: {{ .weight | quote }}
# What a hook may do lasts as long as it runs; the Job of one that failed stays, with its log.
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* The web configuration file of a program, from the Secret's name: as a field, a mount and a volume. */}}
{{- define "ebb.webConfig" -}}{{ with . }}/etc/ebb-web/web.yml{{ end }}{{- end }}
{{- define "ebb.webMount" -}}
# The web configuration file, and the certificates that it names.
- name: web
  mountPath: /etc/ebb-web
  readOnly: true
{{- end }}
{{- define "ebb.webVolume" -}}
- name: web
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}

{{/* What containers without privileges have in common. */}}
{{- define "ebb.unprivileged" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "ebb.unprivilegedPod" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}
