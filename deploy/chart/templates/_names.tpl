{{- /* Names, labels and addresses that several files need. */ -}}

{{- define "sluice.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains "sluice" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-sluice" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sluice.secret" -}}
{{- printf "%s-%s" (.root.Values.secretPrefix | default (include "sluice.fullname" .root)) .name -}}
{{- end -}}

{{- /* Of one component: dict root, component. */ -}}
{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .root.Values.image.tag | toString | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "sluice.image" -}}
{{- with .root.Values.image.registry }}{{ . }}/{{ end }}{{ .root.Values.image.prefix }}{{ .name }}:{{ .root.Values.image.tag }}
{{- end -}}

{{- /* An image of others: dict root, image (repository, tag). Its registry is of those of Sluice when it is set. */ -}}
{{- define "sluice.imageOfOthers" -}}
{{- with .root.Values.image.othersRegistry }}{{ . }}/{{ end }}{{ .image.repository }}:{{ .image.tag }}
{{- end -}}

{{- define "sluice.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- /* The host of Postgres itself, and the one that programs connect to. */ -}}
{{- define "sluice.postgresHost" -}}
{{- if eq .Values.postgres.mode "cloudnative-pg" -}}
{{ include "sluice.fullname" . }}-postgres-rw
{{- else if eq .Values.postgres.mode "single" -}}
{{ include "sluice.fullname" . }}-postgres
{{- else -}}
{{ .Values.postgres.external.host }}
{{- end -}}
{{- end -}}

{{- define "sluice.pooled" -}}
{{- if or (and (eq .Values.postgres.mode "cloudnative-pg") .Values.postgres.cloudnativePG.pooler.enabled) (and (eq .Values.postgres.mode "external") .Values.postgres.external.pooled) -}}true{{- end -}}
{{- end -}}

{{- define "sluice.poolerHost" -}}
{{- if and (eq .Values.postgres.mode "cloudnative-pg") .Values.postgres.cloudnativePG.pooler.enabled -}}
{{ include "sluice.fullname" . }}-postgres-pooler
{{- else -}}
{{ include "sluice.postgresHost" . }}
{{- end -}}
{{- end -}}

{{- define "sluice.postgresParameters" -}}
{{- if eq .Values.postgres.mode "cloudnative-pg" -}}sslmode=verify-full&sslrootcert=/run/secrets/postgres/ca.crt{{- else -}}sslmode=disable{{- end -}}
{{- end -}}

{{- define "sluice.natsURL" -}}
{{- if eq .Values.nats.mode "external" -}}
{{ required "nats.external.url: where NATS is, as tls://nats.example:4222" .Values.nats.external.url }}
{{- else -}}
{{ if .Values.nats.tls.serverSecret }}tls{{ else }}nats{{ end }}://{{ include "sluice.fullname" . }}-nats:4222
{{- end -}}
{{- end -}}

{{- define "sluice.natsClientSecret" -}}
{{- .Values.nats.tls.clientSecret -}}
{{- end -}}

{{- define "sluice.streamReplicas" -}}
{{- if eq .Values.nats.mode "external" -}}{{ .Values.nats.external.streamReplicas }}{{- else if ge (int .Values.nats.replicas) 3 -}}3{{- else -}}1{{- end -}}
{{- end -}}

{{- define "sluice.temporalAddress" -}}
{{- if eq .Values.temporal.mode "external" -}}
{{ required "temporal.external.address: where Temporal's frontend is, as temporal.example:7233" .Values.temporal.external.address }}
{{- else -}}
{{ include "sluice.fullname" . }}-temporal:7233
{{- end -}}
{{- end -}}

{{- /* What a pod needs to be spread over nodes and zones: dict root, component. */ -}}
{{- define "sluice.spread" -}}
topologySpreadConstraints:
  {{- range ternary (list "kubernetes.io/hostname" "topology.kubernetes.io/zone") (list "kubernetes.io/hostname") .root.Values.spreadZones }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: {{ $.root.Values.spread }}
    labelSelector:
      matchLabels:
        {{- include "sluice.selector" $ | nindent 8 }}
  {{- end }}
{{- end -}}

{{- define "sluice.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- define "sluice.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "sluice.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}
