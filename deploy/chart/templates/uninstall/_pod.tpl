{{/* The pod that unloads one node: ebb uninstall makes a DaemonSet of it. */}}
{{- define "ebb.unloadPod" -}}
apiVersion: v1
kind: Pod
metadata:
  name: unload
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "ebb.labels" (dict "root" .root "component" "unload") | nindent 4 }}
spec:
  # It needs no network, and must not wait for one.
  hostNetwork: true
  restartPolicy: Never
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with include "ebb.pullSecrets" .root | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  priorityClassName: {{ .root.Values.agent.priorityClassName }}
  tolerations:
    - operator: Exists
  containers:
    - name: unload
      image: {{ include "ebb.image" .root }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      command: [/usr/bin/ebb-agent, unload, --root=/host, --wait=60s, --config=/etc/ebb/agent.yaml]
      resources:
        requests: {cpu: 20m, memory: 64Mi}
        limits: {memory: 256Mi}
      terminationMessagePolicy: FallbackToLogsOnError
      # It works in the node's own directories (chroot), and only unlinks pins: the kernel
      # removes programs without a pin.
      securityContext:
        privileged: false
        runAsUser: 0
        runAsGroup: 0
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
          add: [SYS_CHROOT]
        seccompProfile:
          type: RuntimeDefault
        appArmorProfile:
          {{- toYaml .root.Values.agent.appArmorProfile | nindent 10 }}
        {{- with .root.Values.agent.seLinuxOptions }}
        seLinuxOptions:
          {{- toYaml . | nindent 10 }}
        {{- end }}
      volumeMounts:
        - name: host
          mountPath: /host
        - name: config
          mountPath: /etc/ebb
          readOnly: true
  volumes:
    - name: host
      hostPath: {path: /, type: Directory}
    - name: config
      configMap:
        name: {{ .name }}
        items:
          - {key: agent.yaml, path: agent.yaml}
{{- end }}
