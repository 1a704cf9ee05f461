{{/*
The Job of a hook: dict "root" . "stage" "check" "hook" "pre-delete" "deadline" 300
"args" (list …) "volume" "name of a ConfigMap or empty".
*/}}
{{- define "ebb.uninstallJob" -}}
{{- $name := printf "%s-uninstall-%s" (include "ebb.name" .root) .stage -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "ebb.labels" (dict "root" .root "component" "uninstall") | nindent 4 }}
  annotations:
    {{- include "ebb.hook" (dict "hook" .hook "weight" 0) | nindent 4 }}
    # Helm shows its log, whether it refuses or not.
    helm.sh/hook-output-log-policy: hook-succeeded,hook-failed
spec:
  backoffLimit: 0
  activeDeadlineSeconds: {{ .deadline }}
  template:
    metadata:
      labels:
        {{- include "ebb.labels" (dict "root" .root "component" "uninstall") | nindent 8 }}
    spec:
      serviceAccountName: {{ $name }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      {{- with include "ebb.pullSecrets" .root | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      restartPolicy: Never
      # Also where nothing else may run: it has to end for helm to go on.
      tolerations:
        - operator: Exists
      nodeSelector:
        kubernetes.io/os: linux
      securityContext:
        {{- include "ebb.unprivilegedPod" . | nindent 8 }}
      containers:
        - name: {{ .stage }}
          image: {{ include "ebb.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          command: [/usr/bin/ebb, uninstall, {{ .stage }}]
          args:
            {{- toYaml .args | nindent 12 }}
          env:
            - name: EBB_UNINSTALL_SAY
              value: kubectl -n {{ .root.Release.Namespace }} create configmap {{ include "ebb.name" .root }}-uninstall
            {{- with include "ebb.apiServer" .root | trim }}
            {{- . | nindent 12 }}
            {{- end }}
          # helm uninstall takes no values, so the operator passes options in this ConfigMap.
          envFrom:
            - configMapRef:
                name: {{ include "ebb.name" .root }}-uninstall
                optional: true
          resources:
            requests: {cpu: 20m, memory: 64Mi}
            limits: {memory: 512Mi}
          terminationMessagePolicy: FallbackToLogsOnError
          securityContext:
            {{- include "ebb.unprivileged" . | nindent 12 }}
          {{- with .volume }}
          volumeMounts:
            - name: config
              mountPath: /etc/ebb-uninstall
              readOnly: true
      volumes:
        - name: config
          configMap:
            name: {{ . }}
          {{- end }}
{{- end }}
