{{- define "onceward.labels" -}}
app.kubernetes.io/name: onceward
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{- define "onceward.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* What every pod shares. The process needs no rights, and writes to /data and /tmp only. */}}
{{- define "onceward.pod" -}}
automountServiceAccountToken: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
volumes:
  - {name: data, emptyDir: {}}
  - {name: tmp, emptyDir: {}}
{{- end }}

{{- define "onceward.container" -}}
image: {{ include "onceward.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: data, mountPath: /data}
  - {name: tmp, mountPath: /tmp}
{{- end }}

{{- /* A deployment of one role, and how many of its pods a drain of nodes may take away at once. */}}
{{- define "onceward.deployment" -}}
{{- $labels := dict "root" .root "role" .role -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .root.Release.Name }}-{{ .name }}
  labels: {{ include "onceward.labels" $labels | nindent 4 }}
spec:
  {{- if not (dig "autoscaling" "enabled" false .values) }}
  replicas: {{ .values.replicas | default 1 }}
  {{- end }}
  selector:
    matchLabels: {{ include "onceward.labels" (dict "root" .root "role" .name) | nindent 6 }}
  strategy:
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
  template:
    metadata:
      labels: {{ include "onceward.labels" (dict "root" .root "role" .name) | nindent 8 }}
      annotations:
        checksum/config: {{ toYaml .root.Values.config | sha256sum }}
        prometheus.io/scrape: "true"
        prometheus.io/port: "8400"
        prometheus.io/path: /metrics
    spec:
      {{- include "onceward.pod" .root | nindent 6 }}
      # Longer than ONCEWARD_SHUTDOWN_GRACE_S: running work ends or is released.
      terminationGracePeriodSeconds: 45
      containers:
        - name: {{ .role }}
          {{- include "onceward.container" .root | nindent 10 }}
          args: {{ .args | toJson }}
          envFrom:
            - configMapRef: {name: {{ .root.Release.Name }}}
            - secretRef: {name: {{ .root.Values.secret }}}
          ports:
            - {name: http, containerPort: 8400}
          startupProbe:
            httpGet: {path: /healthz, port: http}
            periodSeconds: 2
            failureThreshold: 60
          readinessProbe:
            httpGet: {path: /readyz, port: http}
            periodSeconds: 5
            timeoutSeconds: 4
          # Only the process itself: an outage of PostgreSQL must not restart it.
          livenessProbe:
            httpGet: {path: /healthz, port: http}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          {{- with .values.resources }}
          resources: {{ toYaml . | nindent 12 }}
          {{- end }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .root.Release.Name }}-{{ .name }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{ include "onceward.labels" (dict "root" .root "role" .name) | nindent 6 }}
{{- end }}
