{{- /* What the programs are, and what each of them is given. */ -}}

{{- /* The programs: their section of the values, image, what they are given and where they show their health. */ -}}
{{- define "sluice.programs" -}}
serve: {values: serve, image: sluice, args: [serve], port: 7700, metrics: 9464, secret: serve, keys: [nats, signing, receipt{{ if .Values.sourceWorker.enabled }}, sources{{ end }}], database: true, blobs: true, temporal: true}
ingest-worker: {values: ingestWorker, image: ingest-worker, port: 8081, metrics: 8081, secret: ingest-worker, keys: [nats], database: true, direct: true, blobs: true, temporal: true, streams: true}
query-worker: {values: queryWorker, image: query-worker, port: 8081, metrics: 8081, secret: query-worker, keys: [nats, signing, trusted], database: true, temporal: true, streams: true}
llm-gateway: {values: llmGateway, image: llm-gateway, port: 8081, metrics: 8081, secret: llm-gateway, keys: [nats, trusted], database: true}
source-worker: {values: sourceWorker, image: source-worker, port: 8081, metrics: 8081, secret: source-worker, keys: [nats, trusted, sources], database: true, blobs: true, temporal: true, disk: true}
gpu-segmenter: {values: gpuSegmenter, image: gpu-segmenter, port: 8081, metrics: 8081, secret: gpu-segmenter, keys: [nats]}
gpu-segmenter-cuda: {values: gpuSegmenterCuda, image: gpu-segmenter-cuda, port: 8081, metrics: 8081, secret: gpu-segmenter, keys: [nats], gpu: true}
{{- end -}}

{{- /* One login's URL: dict root, setting, login, role, host, key of an external database's Secret. */ -}}
{{- define "sluice.databaseURL" -}}
{{- $secret := include "sluice.secret" (dict "root" .root "name" (printf "database-%s" .login)) -}}
{{- if eq .root.Values.postgres.mode "external" }}
- name: {{ .setting }}
  valueFrom:
    secretKeyRef: {name: {{ $secret }}, key: {{ .key }}}
{{- else }}
- name: {{ .setting }}
  value: postgres://{{ .role }}:$({{ upper .login }}_PASSWORD)@{{ .host }}:5432/sluice?{{ include "sluice.postgresParameters" .root }}
{{- end }}
{{- end -}}

{{- /* The database: dict root, direct, vector, owner. */ -}}
{{- define "sluice.databaseEnv" -}}
{{- $root := .root -}}
{{- $server := include "sluice.postgresHost" $root -}}
{{- if ne $root.Values.postgres.mode "external" }}
{{- range $login, $wanted := dict "program" true "vector" .vector "owner" .owner }}
{{- if $wanted }}
- name: {{ upper $login }}_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ include "sluice.secret" (dict "root" $root "name" (printf "database-%s" $login)) }}, key: password}
{{- end }}
{{- end }}
{{- end }}
{{- include "sluice.databaseURL" (dict "root" $root "setting" "SLUICE_DATABASE_URL" "login" "program" "role" "sluice_program" "host" (include "sluice.poolerHost" $root) "key" "url") }}
{{- if include "sluice.pooled" $root }}
- name: SLUICE_DATABASE_POOLED
  value: "true"
{{- if .direct }}
{{- include "sluice.databaseURL" (dict "root" $root "setting" "SLUICE_DATABASE_DIRECT_URL" "login" "program" "role" "sluice_program" "host" $server "key" "direct-url") }}
{{- end }}
{{- end }}
{{- if .vector }}
{{- include "sluice.databaseURL" (dict "root" $root "setting" "SLUICE_DATABASE_VECTOR_URL" "login" "vector" "role" "sluice_vector_builder" "host" $server "key" "url") }}
{{- end }}
{{- if .owner }}
{{- include "sluice.databaseURL" (dict "root" $root "setting" "SLUICE_DATABASE_OWNER_URL" "login" "owner" "role" "sluice" "host" $server "key" "url") }}
{{- end }}
{{- end -}}

{{- /* The Secret of the authority that Postgres' certificate is checked by; empty: none of one's own. */ -}}
{{- define "sluice.postgresCA" -}}
{{- if eq .Values.postgres.mode "cloudnative-pg" -}}
{{ include "sluice.fullname" . }}-postgres-ca
{{- else if eq .Values.postgres.mode "external" -}}
{{ .Values.postgres.external.caSecret }}
{{- end -}}
{{- end -}}

{{- define "sluice.databaseMounts" -}}
{{- if include "sluice.postgresCA" . }}
- {name: postgres-ca, mountPath: /run/secrets/postgres, readOnly: true}
{{- end }}
{{- end -}}

{{- /* The authority alone, not its key, which may lie in the same Secret. */ -}}
{{- define "sluice.databaseVolumes" -}}
{{- with include "sluice.postgresCA" . }}
{{ include "sluice.secretVolume" (dict "name" "postgres-ca" "secret" . "keys" (list "ca.crt")) }}
{{- end }}
{{- end -}}

{{- define "sluice.temporalEnv" -}}
- name: SLUICE_TEMPORAL_ADDRESS
  value: {{ include "sluice.temporalAddress" . }}
- name: SLUICE_TEMPORAL_NAMESPACE
  value: {{ .Values.temporal.namespace }}
{{- if eq .Values.temporal.mode "external" }}
{{- with .Values.temporal.external.tls }}
{{- if .caSecret }}
- name: SLUICE_TEMPORAL_TLS_CA
  value: /run/secrets/temporal-ca/ca.crt
{{- end }}
{{- if .clientSecret }}
- name: SLUICE_TEMPORAL_TLS_CERT
  value: /run/secrets/temporal-tls/tls.crt
- name: SLUICE_TEMPORAL_TLS_KEY
  value: /run/secrets/temporal-tls/tls.key
{{- end }}
{{- if .serverName }}
- name: SLUICE_TEMPORAL_TLS_SERVER_NAME
  value: {{ .serverName }}
{{- end }}
{{- end }}
{{- with .Values.temporal.external.apiKeySecret }}
- name: SLUICE_TEMPORAL_API_KEY
  valueFrom:
    secretKeyRef: {name: {{ . }}, key: api-key}
{{- end }}
{{- end }}
{{- end -}}

{{- define "sluice.blobsEnv" -}}
- name: SLUICE_BLOBS
  value: {{ .keepIn }}
- name: SLUICE_S3_ENDPOINT
  value: {{ .endpoint }}
- name: SLUICE_S3_BUCKET
  value: {{ required "blobs.bucket: the bucket at blobs.endpoint" .bucket }}
- name: SLUICE_S3_CREDENTIALS
  value: /run/secrets/s3/credentials
- name: SLUICE_S3_ADDRESSING
  value: {{ .addressing }}
{{- with .prefix }}
- name: SLUICE_S3_PREFIX
  value: {{ . }}
{{- end }}
{{- with .region }}
- name: SLUICE_S3_REGION
  value: {{ . }}
{{- end }}
{{- if .caSecret }}
- name: SLUICE_S3_CA
  value: /run/secrets/s3-ca/ca.crt
{{- end }}
{{- end -}}

{{- /* All settings of a program: dict root, name, program, values. */ -}}
{{- define "sluice.env" -}}
{{- $root := .root -}}
{{- $p := .program -}}
- name: SLUICE_NATS_URL
  value: {{ include "sluice.natsURL" $root }}
- name: SLUICE_NATS_CREDENTIALS
  value: /run/secrets/sluice/nats
{{- if include "sluice.natsClientSecret" $root }}
- name: SLUICE_NATS_CA
  value: /run/secrets/nats-tls/ca.crt
- name: SLUICE_NATS_CERT
  value: /run/secrets/nats-tls/tls.crt
- name: SLUICE_NATS_KEY
  value: /run/secrets/nats-tls/tls.key
{{- end }}
{{- if has "signing" $p.keys }}
- name: SLUICE_SIGNING_KEY
  value: /run/secrets/sluice/signing
{{- end }}
{{- if has "trusted" $p.keys }}
- name: SLUICE_TRUSTED_KEYS
  value: /run/secrets/sluice/trusted
{{- end }}
{{- if has "sources" $p.keys }}
- name: SLUICE_SOURCES_KEY_FILE
  value: /run/secrets/sluice/sources
{{- end }}
{{- if $p.streams }}
- name: SLUICE_STREAM_REPLICAS
  value: {{ include "sluice.streamReplicas" $root | quote }}
{{- end }}
{{- if $p.database }}
{{- include "sluice.databaseEnv" (dict "root" $root "direct" $p.direct "vector" $p.direct "owner" false) }}
- name: SLUICE_DATABASE_CONNECTIONS
  value: {{ $root.Values.postgres.connections | quote }}
{{- end }}
{{- if and (eq .name "query-worker") $root.Values.postgres.readReplica }}
{{- if eq $root.Values.postgres.mode "single" }}{{ fail "postgres.readReplica: a single server has no standby" }}{{ end }}
{{- include "sluice.databaseURL" (dict "root" $root "setting" "SLUICE_DATABASE_REPLICA_URL" "login" "program" "role" "sluice_program" "host" (printf "%s-postgres-ro" (include "sluice.fullname" $root)) "key" "replica-url") }}
{{- end }}
{{- if and $p.blobs $root.Values.blobs.endpoint }}
{{ include "sluice.blobsEnv" $root.Values.blobs }}
{{- end }}
{{- if $p.temporal }}
{{ include "sluice.temporalEnv" $root }}
{{- end }}
{{- if eq .name "serve" }}
- name: SLUICE_LISTEN
  value: 0.0.0.0:7700
- name: SLUICE_METRICS_LISTEN
  value: 0.0.0.0:9464
- name: SLUICE_RECEIPT_KEY
  value: /run/secrets/sluice/receipt
- name: SLUICE_SESSION_SECRET
  valueFrom:
    secretKeyRef: {name: {{ include "sluice.secret" (dict "root" $root "name" "serve") }}, key: session}
{{- if .values.tlsSecret }}
- name: SLUICE_API_TLS_CERT
  value: /run/secrets/api-tls/tls.crt
- name: SLUICE_API_TLS_KEY
  value: /run/secrets/api-tls/tls.key
{{- end }}
{{- else }}
- name: SLUICE_HEALTH_LISTEN
  value: 0.0.0.0:8081
{{- end }}
{{- if eq .name "ingest-worker" }}
- name: SLUICE_PARSE_WORKERS
  value: {{ .values.parsers | quote }}
{{- end }}
{{- if eq .name "llm-gateway" }}
{{- $secret := .values.secret }}
{{- range $setting, $key := .values.secretKeys }}
- name: {{ $setting }}
  valueFrom:
    secretKeyRef: {name: {{ required "llmGateway.secret: the Secret that llmGateway.secretKeys name keys of" $secret }}, key: {{ $key }}}
{{- end }}
{{- end }}
{{- if $p.gpu }}
- name: SLUICE_MODEL_PROVIDER
  value: cuda
{{- end }}
{{ include "sluice.logEnv" $root }}
{{- with $root.Values.telemetry.otlpEndpoint }}
- name: OTEL_TRACES_EXPORTER
  value: otlp
- name: OTEL_METRICS_EXPORTER
  value: otlp
- name: OTEL_EXPORTER_OTLP_PROTOCOL
  value: grpc
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . }}
{{- end }}
{{- range $setting, $value := .values.env }}
- name: {{ $setting }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{- define "sluice.logEnv" -}}
- name: SLUICE_LOG_FORMAT
  value: json
- name: SLUICE_LOG_LEVEL
  value: {{ .Values.logLevel }}
{{- end -}}

{{- /* Files of a program: dict root, name, program, values. */ -}}
{{- define "sluice.mounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: sluice, mountPath: /run/secrets/sluice, readOnly: true}
{{- if include "sluice.natsClientSecret" .root }}
- {name: nats-tls, mountPath: /run/secrets/nats-tls, readOnly: true}
{{- end }}
{{- if .program.database }}
{{- include "sluice.databaseMounts" .root }}
{{- end }}
{{- if and .program.blobs .root.Values.blobs.endpoint }}
- {name: s3, mountPath: /run/secrets/s3, readOnly: true}
{{- if .root.Values.blobs.caSecret }}
- {name: s3-ca, mountPath: /run/secrets/s3-ca, readOnly: true}
{{- end }}
{{- end }}
{{- if and .program.temporal (eq .root.Values.temporal.mode "external") }}
{{- with .root.Values.temporal.external.tls }}
{{- if .caSecret }}
- {name: temporal-ca, mountPath: /run/secrets/temporal-ca, readOnly: true}
{{- end }}
{{- if .clientSecret }}
- {name: temporal-tls, mountPath: /run/secrets/temporal-tls, readOnly: true}
{{- end }}
{{- end }}
{{- end }}
{{- if and (eq .name "serve") .values.tlsSecret }}
- {name: api-tls, mountPath: /run/secrets/api-tls, readOnly: true}
{{- end }}
{{- with .values.packVolume }}
- {name: pack, mountPath: /packs, readOnly: true}
{{- end }}
{{- end -}}

{{- define "sluice.secretVolume" -}}
- name: {{ .name }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    items:
      {{- range .keys }}
      - {key: {{ . }}, path: {{ . }}}
      {{- end }}
{{- end -}}

{{- define "sluice.volumes" -}}
- name: tmp
  emptyDir: { {{- if not .program.disk }}medium: Memory, {{ end }}sizeLimit: {{ .values.tmp }}}
{{ include "sluice.secretVolume" (dict "name" "sluice" "secret" (include "sluice.secret" (dict "root" .root "name" .program.secret)) "keys" .program.keys) }}
{{- with include "sluice.natsClientSecret" .root }}
{{ include "sluice.secretVolume" (dict "name" "nats-tls" "secret" . "keys" (list "ca.crt" "tls.crt" "tls.key")) }}
{{- end }}
{{- if .program.database }}
{{- include "sluice.databaseVolumes" .root }}
{{- end }}
{{- if and .program.blobs .root.Values.blobs.endpoint }}
{{ include "sluice.secretVolume" (dict "name" "s3" "secret" (required "blobs.secret: the Secret with the keys of S3" .root.Values.blobs.secret) "keys" (list "credentials")) }}
{{- with .root.Values.blobs.caSecret }}
{{ include "sluice.secretVolume" (dict "name" "s3-ca" "secret" . "keys" (list "ca.crt")) }}
{{- end }}
{{- end }}
{{- if and .program.temporal (eq .root.Values.temporal.mode "external") }}
{{- with .root.Values.temporal.external.tls }}
{{- if .caSecret }}
{{ include "sluice.secretVolume" (dict "name" "temporal-ca" "secret" .caSecret "keys" (list "ca.crt")) }}
{{- end }}
{{- if .clientSecret }}
{{ include "sluice.secretVolume" (dict "name" "temporal-tls" "secret" .clientSecret "keys" (list "tls.crt" "tls.key")) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (eq .name "serve") .values.tlsSecret }}
{{ include "sluice.secretVolume" (dict "name" "api-tls" "secret" .values.tlsSecret "keys" (list "tls.crt" "tls.key")) }}
{{- end }}
{{- with .values.packVolume }}
- name: pack
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
