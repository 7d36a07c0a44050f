{{- /* Rules that several policies have. */ -}}

{{- define "sluice.toDNS" -}}
- to:
    - namespaceSelector:
        matchLabels: {kubernetes.io/metadata.name: {{ .Values.networkPolicy.dns.namespace }}}
    {{- range .Values.networkPolicy.dns.cidrs }}
    - ipBlock: {cidr: {{ . }}}
    {{- end }}
  ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
{{- end -}}

{{- /* To a component of this release: dict root, component, port. */ -}}
{{- define "sluice.toComponent" -}}
- to:
    - podSelector:
        matchLabels:
          {{- include "sluice.selector" . | nindent 10 }}
  ports: [{port: {{ .port }}}]
{{- end -}}

{{- /* To what is outside: dict cidrs, ports. */ -}}
{{- define "sluice.toOutside" -}}
- to:
    {{- range .cidrs }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
  ports:
    {{- range .ports }}
    - {port: {{ . }}}
    {{- end }}
{{- end -}}

{{- /* To public addresses alone: ports. */ -}}
{{- define "sluice.toPublic" -}}
- to:
    - ipBlock:
        cidr: 0.0.0.0/0
        except: [0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, 192.168.0.0/16]
    - ipBlock:
        cidr: "::/0"
        except: ["::/96", "64:ff9b::/96", "fc00::/7", "fe80::/10"]
  ports:
    {{- range . }}
    - {port: {{ . }}}
    {{- end }}
{{- end -}}

{{- define "sluice.toPostgres" -}}
{{- if eq .Values.postgres.mode "external" -}}
{{ include "sluice.toOutside" .Values.networkPolicy.external.postgres }}
{{- else if eq .Values.postgres.mode "single" -}}
{{ include "sluice.toComponent" (dict "root" . "component" "postgres" "port" 5432) }}
{{- else -}}
- to:
    - podSelector:
        matchLabels: {cnpg.io/cluster: {{ include "sluice.fullname" . }}-postgres}
    {{- if .Values.postgres.cloudnativePG.pooler.enabled }}
    - podSelector:
        matchLabels: {cnpg.io/poolerName: {{ include "sluice.fullname" . }}-postgres-pooler}
    {{- end }}
  ports: [{port: 5432}]
{{- end -}}
{{- end -}}

{{- define "sluice.toNATS" -}}
{{- if eq .Values.nats.mode "external" -}}
{{ include "sluice.toOutside" .Values.networkPolicy.external.nats }}
{{- else -}}
{{ include "sluice.toComponent" (dict "root" . "component" "nats" "port" 4222) }}
{{- end -}}
{{- end -}}

{{- define "sluice.toTemporal" -}}
{{- if eq .Values.temporal.mode "external" -}}
{{ include "sluice.toOutside" .Values.networkPolicy.external.temporal }}
{{- else -}}
{{ include "sluice.toComponent" (dict "root" . "component" "temporal" "port" 7233) }}
{{- end -}}
{{- end -}}

{{- /* From all pods of a namespace: dict namespace, port. */ -}}
{{- define "sluice.fromNamespace" -}}
- from:
    - namespaceSelector:
        matchLabels: {kubernetes.io/metadata.name: {{ .namespace }}}
  ports: [{port: {{ .port }}}]
{{- end -}}

{{- /* From components of this release: dict root, components, port. */ -}}
{{- define "sluice.fromComponents" -}}
- from:
    - podSelector:
        matchLabels:
          app.kubernetes.io/name: sluice
          app.kubernetes.io/instance: {{ .root.Release.Name }}
        matchExpressions:
          - {key: app.kubernetes.io/component, operator: In, values: {{ toJson .components }}}
  ports: [{port: {{ .port }}}]
{{- end -}}

{{- define "sluice.policyHead" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "sluice.fullname" .root }}-{{ .component }}
  labels:
    {{- include "sluice.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "sluice.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
{{- end -}}
