{{- define "ndrbridge.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{- define "ndrbridge.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ndrbridge.labels" -}}
{{ include "ndrbridge.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "ndrbridge.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "ndrbridge.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "ndrbridge.secret" -}}
{{- .Values.existingSecret | default (include "ndrbridge.name" .) }}
{{- end }}

{{- define "ndrbridge.clustered" -}}
{{- if .Values.config.cluster }}true{{ end }}
{{- end }}

{{/* The configuration with the chart's defaults. */}}
{{- define "ndrbridge.config" -}}
{{- $admin := dict "listen" ":9600" -}}
{{- if not (.Values.config.admin | default dict).token }}{{ $_ := set $admin "token_file" "/run/secrets/ndrbridge/admin-token" }}{{ end -}}
{{- $own := dict "state" "/var/lib/ndrbridge/ndrbridge.db" "log" (dict "format" "json") "admin" $admin -}}
{{- if include "ndrbridge.clustered" . }}{{ $_ := set $own "reload" (dict "watch" "30s") }}{{ end -}}
{{- mergeOverwrite $own (deepCopy .Values.config) | toYaml }}
{{- end }}

{{- define "ndrbridge.port" -}}
{{- (.Values.config.admin | default dict).listen | default ":9600" | regexFind "[0-9]+$" }}
{{- end }}

{{- define "ndrbridge.probe" -}}
{{- $scheme := "HTTP" -}}
{{- if (.root.Values.config.admin | default dict).tls }}{{ $scheme = "HTTPS" }}{{ end -}}
httpGet: {path: {{ .path }}, port: admin, scheme: {{ $scheme }}}
{{- end }}

{{/* The pod of the Deployment and of the StatefulSet. */}}
{{- define "ndrbridge.pod" -}}
metadata:
  labels:
    {{- include "ndrbridge.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    {{- if not (include "ndrbridge.clustered" .) }}
    # A change of the configuration restarts the bridge. Members of a cluster load it instead: one
    # with another configuration than the owner's is not ready, and a StatefulSet would wait for it.
    checksum/config: {{ include "ndrbridge.config" . | sha256sum }}
    {{- end }}
    {{- with .Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "ndrbridge.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- if include "ndrbridge.clustered" . }}
  # One member in each zone, or at least on each node.
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "ndrbridge.selector" . | nindent 10 }}
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: DoNotSchedule
      labelSelector:
        matchLabels: {{- include "ndrbridge.selector" . | nindent 10 }}
  {{- end }}
  containers:
    - name: ndrbridge
      image: {{ with .Values.image }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}{{ end }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [run]
      env:
        - {name: NDRBRIDGE_CONFIG, value: /etc/ndrbridge/ndrbridge.yaml}
        {{- if and (include "ndrbridge.clustered" .) (not (.Values.config.admin | default dict).advertise) }}
        # The other members reach this one by the name of its pod.
        - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        - {name: NDRBRIDGE_ADMIN_ADVERTISE, value: "{{ ternary "https" "http" (hasKey (.Values.config.admin | default dict) "tls") }}://$(POD).{{ include "ndrbridge.name" . }}.$(NAMESPACE).svc:{{ include "ndrbridge.port" . }}"}
        {{- end }}
        {{- with .Values.env }}{{ toYaml . | nindent 8 }}{{ end }}
      {{- with .Values.envFrom }}
      envFrom: {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - {name: admin, containerPort: {{ include "ndrbridge.port" . }}}
      # It answers before the state is open, so a long migration does not fail it.
      startupProbe:
        {{- include "ndrbridge.probe" (dict "root" . "path" "/healthz") | nindent 8 }}
        periodSeconds: 1
        failureThreshold: 60
      livenessProbe:
        {{- include "ndrbridge.probe" (dict "root" . "path" "/healthz") | nindent 8 }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        {{- include "ndrbridge.probe" (dict "root" . "path" "/readyz") | nindent 8 }}
        periodSeconds: 10
        timeoutSeconds: 5
      resources: {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: state, mountPath: /var/lib/ndrbridge}
        - {name: config, mountPath: /etc/ndrbridge, readOnly: true}
        - {name: secrets, mountPath: /run/secrets/ndrbridge, readOnly: true}
        {{- with .Values.extraVolumeMounts }}{{ toYaml . | nindent 8 }}{{ end }}
  volumes:
    - name: config
      configMap: {name: {{ include "ndrbridge.name" . }}}
    # Mounted as a whole, not by subPath, so that changed secrets are visible.
    - name: secrets
      secret: {secretName: {{ include "ndrbridge.secret" . }}, defaultMode: 0440}
    {{- with .Values.extraVolumes }}{{ toYaml . | nindent 4 }}{{ end }}
    {{- if not (include "ndrbridge.clustered" .) }}
    - name: state
      persistentVolumeClaim: {claimName: {{ .Values.persistence.existingClaim | default (include "ndrbridge.name" .) }}}
    {{- end }}
{{- end }}

{{- define "ndrbridge.claim" -}}
accessModes: {{- toYaml .Values.persistence.accessModes | nindent 2 }}
{{- with .Values.persistence.storageClassName }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests: {storage: {{ .Values.persistence.size }}}
{{- end }}
