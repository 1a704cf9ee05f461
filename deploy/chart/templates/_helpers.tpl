{{- define "ebb.name" -}}
{{- if contains "ebb" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-ebb" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "ebb.agent" -}}{{ include "ebb.name" . }}-agent{{- end }}
{{- define "ebb.controller" -}}{{ include "ebb.name" . }}-controller{{- end }}

{{/* What a selector must never change: dict "root" . "component" "agent" */}}
{{- define "ebb.selector" -}}
app.kubernetes.io/name: ebb
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "ebb.labels" -}}
{{ include "ebb.selector" . }}
app.kubernetes.io/part-of: ebb
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- end }}

{{- define "ebb.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/*
The name by which containerd knows the image: "ebb" is docker.io/library/ebb, and
"me/ebb" docker.io/me/ebb (a first part without dot or colon is no host).
*/}}
{{- define "ebb.imageName" -}}
{{- $r := .Values.image.repository -}}
{{- $first := first (splitList "/" $r) -}}
{{- if not (contains "/" $r) -}}docker.io/library/{{ $r }}
{{- else if or (contains "." $first) (contains ":" $first) (eq $first "localhost") -}}{{ $r }}
{{- else -}}docker.io/{{ $r }}
{{- end -}}
{{- end }}

{{- define "ebb.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
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
