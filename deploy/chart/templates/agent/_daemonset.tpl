{{/* The agents with a profile, or those without: what is given is the chart's own, and "profile" and "profiles". */}}
{{- define "ebb.agentDaemonSet" -}}
{{- $needs := include "ebb.agentNeeds" . | fromJson }}
{{- $a := .Values.agent }}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ include "ebb.agentSet" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "ebb.labels" (dict "root" . "component" "agent") | nindent 4 }}
spec:
  selector:
    matchLabels:
      {{- include "ebb.selector" (dict "root" . "component" "agent") | nindent 6 }}
      ebb/profile: {{ .profile | default "default" }}
  # Never two agents on a node: the second would refuse to start, so no surge. While there
  # is none, the programs in the kernel go on recording: their pins are on the node's bpffs.
  updateStrategy:
    type: {{ $a.updateStrategy.type }}
    {{- if eq $a.updateStrategy.type "RollingUpdate" }}
    rollingUpdate:
      {{- toYaml $a.updateStrategy.rollingUpdate | nindent 6 }}
    {{- end }}
  template:
    metadata:
      labels:
        {{- include "ebb.labels" (dict "root" . "component" "agent") | nindent 8 }}
        ebb/profile: {{ .profile | default "default" }}
        {{- with $a.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        ebb/config: {{ include "ebb.agentConfig" . | sha256sum }}
        kubectl.kubernetes.io/default-container: agent
        {{- with $a.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "ebb.agentAccount" . }}
      automountServiceAccountToken: {{ ne $needs.source "none" }}
      enableServiceLinks: false
      {{- with include "ebb.pullSecrets" . | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      hostNetwork: {{ $a.hostNetwork }}
      {{- if $a.hostNetwork }}
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
      {{- if $a.hostPID }}
      hostPID: true
      {{- end }}
      priorityClassName: {{ $a.priorityClassName }}
      terminationGracePeriodSeconds: {{ $a.terminationGracePeriodSeconds }}
      {{- with $a.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with merge (ternary (dict "ebb/profile" .profile) dict (ne .profile "")) ($a.nodeSelector | default dict) }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with include "ebb.agentAffinity" . | fromYaml }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: agent
          image: {{ include "ebb.image" . }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          command: [/usr/bin/ebb-agent, --config=/etc/ebb/agent.yaml]
          {{- with $a.extraArgs }}
          args:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          env:
            - name: NODE_NAME
              valueFrom:
                fieldRef: {fieldPath: spec.nodeName}
            {{- if and $a.hostNetwork $a.metrics.open (not $a.metrics.everyAddress) }}
            # Where the port of metrics listens.
            - name: NODE_IP
              valueFrom:
                fieldRef: {fieldPath: status.hostIP}
            {{- end }}
            # Who holds the node's lock, for a second agent to say.
            - name: POD_NAME
              valueFrom:
                fieldRef: {fieldPath: metadata.name}
            - name: POD_NAMESPACE
              valueFrom:
                fieldRef: {fieldPath: metadata.namespace}
            - name: POD_UID
              valueFrom:
                fieldRef: {fieldPath: metadata.uid}
            {{- if and .Values.rbac.create (eq $needs.source "apiserver") }}
            # An agent that stops looks whether it is gone: then ebb is being uninstalled.
            - name: DAEMONSET_NAME
              value: {{ include "ebb.agent" . }}
            {{- end }}
            {{- with include "ebb.apiServer" . | trim }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- with $a.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - name: metrics
              containerPort: {{ $a.metrics.port }}
            - name: health
              containerPort: {{ $a.health.port }}
              {{- if $a.hostNetwork }}
              hostIP: 127.0.0.1
              hostPort: {{ $a.health.port }}
              {{- end }}
          # The loop has moved within minutes: not for the runtime's or the API server's failures.
          livenessProbe:
            {{- include "ebb.agentProbe" (dict "path" "/healthz" "hostNetwork" $a.hostNetwork) | nindent 12 }}
            periodSeconds: 30
            timeoutSeconds: 10
            failureThreshold: 4
          # The kernel's types are read at the start, slowly on a busy node.
          startupProbe:
            {{- include "ebb.agentProbe" (dict "path" "/healthz" "hostNetwork" $a.hostNetwork) | nindent 12 }}
            periodSeconds: 2
            timeoutSeconds: 10
            failureThreshold: 60
          readinessProbe:
            {{- include "ebb.agentProbe" (dict "path" "/readyz" "hostNetwork" $a.hostNetwork) | nindent 12 }}
            periodSeconds: 10
            timeoutSeconds: 10
          resources:
            {{- toYaml $a.resources | nindent 12 }}
          terminationMessagePolicy: FallbackToLogsOnError
          # Not privileged: root with these capabilities. docs/security-agent.md has the reason of each.
          securityContext:
            privileged: false
            runAsUser: 0
            runAsGroup: 0
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
              add:
                {{- toYaml $needs.capabilities | nindent 16 }}
            seccompProfile:
              {{- toYaml $a.seccompProfile | nindent 14 }}
            appArmorProfile:
              {{- toYaml $a.appArmorProfile | nindent 14 }}
            {{- with $a.seLinuxOptions }}
            seLinuxOptions:
              {{- toYaml . | nindent 14 }}
            {{- end }}
          # Directories are where the node has them, for the runtime and the kernel name them
          # so. With HostToContainer, what the node unmounts later is unmounted here, too:
          # without, the agent would hold other pods' filesystems.
          volumeMounts:
            - name: config
              mountPath: /etc/ebb
              readOnly: true
            {{- if $a.metrics.webConfigSecret }}
            {{- include "ebb.webMount" . | nindent 12 }}
            {{- end }}
            {{- with $needs.pauseFile }}
            # A person makes the ConfigMap to stop all agents, those of later nodes, too.
            - name: pause
              mountPath: {{ dir . }}
              readOnly: true
            {{- end }}
            # containerd's socket, by its directory: a restart of containerd makes a new one.
            - name: runtime
              mountPath: {{ $needs.socketDirectory }}
              mountPropagation: HostToContainer
              readOnly: true
            # Layers and blobs: read to know how full their disk is and which directory is which layer.
            - name: layers
              mountPath: {{ $needs.root }}
              mountPropagation: HostToContainer
              readOnly: true
            {{- with $needs.kubelet }}
            # An empty directory on the kubelet's disk also shows how full that is. The kubelet's
            # own directory has the Secrets of all pods and the key of its client certificate.
            - name: kubelet
              mountPath: {{ . }}
              readOnly: true
            {{- end }}
            {{- with $needs.podLogs }}
            # Logs of pods that are gone are removed, and links to them, if containers.logs is on.
            # In mode observe nothing is, so that these two are read-only.
            - name: pod-logs
              mountPath: {{ . }}
              mountPropagation: HostToContainer
              readOnly: {{ not $needs.removesLogs }}
            {{- end }}
            {{- with $needs.logLinks }}
            - name: log-links
              mountPath: {{ . }}
              readOnly: {{ not $needs.removesLogs }}
            {{- end }}
            {{- if $needs.kernel }}
            {{- if hasPrefix "/sys/fs/bpf/" $needs.pins }}
            # The runtime makes the directory below in it: it could not in the container's sysfs.
            - name: bpf
              mountPath: /sys/fs/bpf
            {{- end }}
            # Programs and maps are pinned here, and outlive the pod. What others pin is elsewhere.
            - name: pins
              mountPath: {{ $needs.pins }}
            {{- end }}
            - name: state
              mountPath: {{ $needs.state }}
            # The lock that makes it the only agent of its node.
            - name: run
              mountPath: {{ $needs.lock }}
            {{- if ne $needs.lock "/run/ebb" }}
            # The admin socket.
            - name: admin
              mountPath: /run/ebb
            {{- end }}
            {{- with $a.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: config
          configMap:
            name: {{ include "ebb.agentSet" . }}
        {{- with $a.metrics.webConfigSecret }}
        {{- include "ebb.webVolume" . | nindent 8 }}
        {{- end }}
        {{- with $needs.pauseFile }}
        - name: pause
          configMap:
            name: ebb-pause # whatever the release is called
            items: [{key: pause, path: {{ base . }}}]
            optional: true
        {{- end }}
        - name: runtime
          hostPath: {path: {{ $needs.socketDirectory }}, type: Directory}
        - name: layers
          hostPath: {path: {{ $needs.root }}, type: Directory}
        {{- with $needs.kubelet }}
        - name: kubelet
          hostPath: {path: {{ . }}/ebb, type: DirectoryOrCreate}
        {{- end }}
        {{- with $needs.podLogs }}
        - name: pod-logs
          hostPath: {path: {{ . }}, type: DirectoryOrCreate}
        {{- end }}
        {{- with $needs.logLinks }}
        - name: log-links
          hostPath: {path: {{ . }}, type: DirectoryOrCreate}
        {{- end }}
        {{- if $needs.kernel }}
        {{- if hasPrefix "/sys/fs/bpf/" $needs.pins }}
        - name: bpf
          emptyDir: {medium: Memory, sizeLimit: 1Mi}
        {{- end }}
        - name: pins
          hostPath: {path: {{ $needs.pins }}, type: DirectoryOrCreate}
        {{- end }}
        - name: state
          hostPath: {path: {{ $needs.state }}, type: DirectoryOrCreate}
        - name: run
          hostPath: {path: {{ $needs.lock }}, type: DirectoryOrCreate}
        {{- if ne $needs.lock "/run/ebb" }}
        - name: admin
          hostPath: {path: /run/ebb, type: DirectoryOrCreate}
        {{- end }}
        {{- with $a.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end }}
