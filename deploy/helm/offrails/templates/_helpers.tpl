{{- define "offrails.name" -}}
{{- ternary .Release.Name (printf "%s-offrails" .Release.Name) (contains "offrails" .Release.Name) | trunc 53 | trimSuffix "-" -}}
{{- end -}}

{{- define "offrails.selector" -}}
app.kubernetes.io/name: offrails
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "offrails.routerSelector" -}}
app.kubernetes.io/name: offrails-router
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "offrails.labels" -}}
{{ include "offrails.selector" . }}
app.kubernetes.io/part-of: offrails
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "offrails.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "offrails.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
seccompProfile: {type: RuntimeDefault}
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* The monitor's container, as the manifests of deploy/kubernetes have it. */ -}}
{{- define "offrails.container" -}}
- name: offrails
  image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  {{- if eq .Values.mode "sidecar" }}
  restartPolicy: Always
  {{- end }}
  ports:
    {{- if ne .Values.mode "sidecar" }}
    - {name: otlp-grpc, containerPort: 4317, protocol: TCP}
    - {name: otlp-http, containerPort: 4318, protocol: TCP}
    {{- end }}
    {{- if .Values.decide.enabled }}
    - {name: decide, containerPort: 4320, protocol: TCP}
    {{- end }}
    {{- if .Values.ingress.admin.host }}
    - {name: admin, containerPort: 4319, protocol: TCP}
    {{- end }}
    - {name: metrics, containerPort: 9464, protocol: TCP}
  {{- if ne .Values.mode "sidecar" }}
  startupProbe: # going through a journal may take longer than the probe waits
    httpGet: {path: {{ ternary "/-/healthy" "/-/ready" .Values.state.enabled }}, port: metrics}
    periodSeconds: 1
    failureThreshold: 30
  readinessProbe:
    httpGet: {path: /-/ready, port: metrics}
    periodSeconds: 5
  {{- end }}
  livenessProbe:
    httpGet: {path: /-/healthy, port: metrics}
    periodSeconds: 10
    {{- if eq .Values.mode "sidecar" }}
    failureThreshold: 6
    {{- end }}
  resources:
    {{- toYaml .Values.resources | nindent 4 }}
  securityContext:
    {{- include "offrails.containerSecurity" . | nindent 4 }}
  volumeMounts:
    - {name: offrails-specs, mountPath: /etc/offrails/specs, readOnly: true}
    {{- if eq .Values.mode "sidecar" }}
    - {name: offrails-last-good, mountPath: /var/lib/offrails/last-good}
    - {name: offrails-mark, mountPath: /var/lib/offrails/mark}
    {{- end }}
    {{- if .Values.state.enabled }}
    - {name: offrails-state, mountPath: /var/lib/offrails/state}
    {{- end }}
    {{- if include "offrails.archived" . }}
    - {name: offrails-archive, mountPath: /var/lib/offrails/archive}
    {{- end }}
    {{- if .Values.config }}
    - {name: offrails-config, mountPath: /etc/offrails/config, readOnly: true}
    {{- end }}
    {{- range $folder, $secret := .Values.secrets }}
    - {name: offrails-{{ $folder }}, mountPath: /etc/offrails/{{ $folder }}, readOnly: true}
    {{- end }}
  {{- with include "offrails.env" . | fromYaml }}
  env:
    {{- range $name, $value := . }}
    - {name: {{ $name }}, value: {{ $value | quote }}}
    {{- end }}
    {{- if include "offrails.archiveShared" $ }}
    {{- with $.Values.archive.urlSecret }}
    - {name: OFFRAILS_ARCHIVE_URL, valueFrom: {secretKeyRef: {name: {{ .name }}, key: {{ .key }}}}}
    {{- end }}
    {{- end }}
    {{- with ($.Values.judges | default dict).keySecret }}
    - {name: OPENAI_API_KEY, valueFrom: {secretKeyRef: {name: {{ . }}, key: OPENAI_API_KEY}}}
    - {name: OPENAI_API_KEY_SECOND, valueFrom: {secretKeyRef: {name: {{ . }}, key: OPENAI_API_KEY_SECOND, optional: true}}}
    {{- end }}
  {{- end }}
{{- end -}}

{{- /* The variables: those that other values ask for, and `env`, which has the last word. */ -}}
{{- define "offrails.env" -}}
{{- $given := dict -}}
{{- if .Values.config -}}
{{- $_ := set $given "OFFRAILS_CONFIG" "/etc/offrails/config/offrails.yaml" -}}
{{- end -}}
{{- if .Values.state.enabled -}}
{{- $_ := set $given "OFFRAILS_STATE_DIR" "/var/lib/offrails/state" -}}
{{- $_ := set $given "OFFRAILS_STATE_BYTES_MAX" (include "offrails.journalBytes" .) -}}
{{- if eq .Values.mode "fleet" -}}
{{- /* The router is the only sender. It tries again for 10 s, at the latest 2 s before that is over. */ -}}
{{- $_ := set $given "OFFRAILS_STATE_BRIDGED_SECONDS" "8" -}}
{{- end -}}
{{- end -}}
{{- if include "offrails.archived" . -}}
{{- $_ := set $given "OFFRAILS_ARCHIVE_DIR" "/var/lib/offrails/archive" -}}
{{- end -}}
{{- if or (include "offrails.archived" .) (include "offrails.archiveShared" .) -}}
{{- $_ := set $given "OFFRAILS_ARCHIVE_BYTES_MAX" (include "offrails.archiveBytes" .) -}}
{{- end -}}
{{- if .Values.decide.enabled -}}
{{- $_ := set $given "OFFRAILS_DECIDE" (ternary "127.0.0.1:4320" "0.0.0.0:4320" (eq .Values.mode "sidecar")) -}}
{{- end -}}
{{- $env := merge (dict) (.Values.env | default dict) $given -}}
{{- with .Values.ingress.admin.host -}}
{{- if not (hasKey $env "OFFRAILS_ADMIN") -}}
{{- $_ := set $env "OFFRAILS_ADMIN" "0.0.0.0:4319" -}}
{{- end -}}
{{- if not (hasKey $env "OFFRAILS_ADMIN_NAMES") -}}
{{- $_ := set $env "OFFRAILS_ADMIN_NAMES" . -}}
{{- end -}}
{{- end -}}
{{- $_ := set $env "OFFRAILS_PUBLIC_URL" (include "offrails.publicUrl" $ | trim) -}}
{{- toYaml $env -}}
{{- end -}}

{{- /* Where people reach the session view: what `env` or `config` says, its Ingress, or a forwarded port. */ -}}
{{- define "offrails.publicUrl" -}}
{{- $admin := .Values.ingress.admin -}}
{{- $config := .Values.config | default "{}" | fromYaml -}}
{{- $ingress := printf "%s://%s" (ternary "https" "http" (ne $admin.tlsSecret "")) $admin.host -}}
{{- $usual := ternary $ingress "http://127.0.0.1:4319" (ne $admin.host "") -}}
{{- get (.Values.env | default dict) "OFFRAILS_PUBLIC_URL" | default $config.public_url | default $usual -}}
{{- end -}}

{{- /* Ports of what the monitor sends to: next hops, webhooks, telemetry, log events, judges, an Alertmanager of one's own; a list in YAML. */ -}}
{{- define "offrails.ports" -}}
{{- $env := .Values.env | default dict -}}
{{- $config := .Values.config | default "{}" | fromYaml -}}
{{- $alerts := $config.alerts | default dict -}}
{{- $given := list (get $env "OFFRAILS_ALERTS_WEBHOOK_URL") (get $env "OFFRAILS_ALERTS_OTLP_ENDPOINT") (get $env "OFFRAILS_TELEMETRY_OTLP_ENDPOINT") -}}
{{- $given = concat $given (splitList "," (get $env "OFFRAILS_FORWARD")) (splitList "," (get $env "OFFRAILS_ALERTS_ALERTMANAGER" | replace "http://alertmanager-operated.monitoring:9093" "")) -}}
{{- $given = append $given (($alerts.webhook | default dict).url) -}}
{{- $given = append $given $alerts.otlp_endpoint -}}
{{- $given = append $given (($config.telemetry | default dict).otlp_endpoint) -}}
{{- $judges := $config.judges | default dict -}}
{{- $given = concat $given (list (get $env "OFFRAILS_JUDGES_ENDPOINT") (get $env "OFFRAILS_JUDGES_SECOND_ENDPOINT")) -}}
{{- $given = append $given $judges.endpoint -}}
{{- $given = append $given (($judges.second | default dict).endpoint) -}}
{{- range $each := concat ($alerts.alertmanager | default list) ($config.forward | default list) -}}
{{- $given = append $given (kindIs "map" $each | ternary (get (kindIs "map" $each | ternary $each dict) "endpoint") $each) -}}
{{- end -}}
{{- $ports := list -}}
{{- range $each := $given -}}
{{- with trim (toString ($each | default "")) -}}
{{- $place := regexReplaceAll "^[a-z]+://([^/]*@)?" . "" | splitList "/" | first -}}
{{- $port := regexFind ":[0-9]+$" $place | trimPrefix ":" -}}
{{- $ports = append $ports (int ($port | default (ternary "443" "80" (hasPrefix "https:" .)))) -}}
{{- end -}}
{{- end -}}
{{- uniq $ports | toYaml -}}
{{- end -}}

{{- /* Of the journal: three quarters of its volume, and no more than it takes by itself. The rest is for a snapshot. */ -}}
{{- define "offrails.journalBytes" -}}
{{- min 536870912 (int64 (include "offrails.threeQuarters" .Values.state.size)) -}}
{{- end -}}

{{- /* Of the archive: three quarters of its volume. The rest is for its log of writes, and for a file system's own. */ -}}
{{- define "offrails.archiveBytes" -}}
{{- include "offrails.threeQuarters" .Values.archive.size -}}
{{- end -}}

{{- define "offrails.threeQuarters" -}}
{{- $unit := get (dict "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776) (regexFind "[MGT]i$" .) -}}
{{- div (mul 3 (int64 (regexFind "^[0-9]+" .)) (int64 $unit)) 4 -}}
{{- end -}}

{{- /* "true" where past sessions are kept: in a gateway, if `archive` says so. */ -}}
{{- define "offrails.archived" -}}
{{- if and .Values.archive.enabled (eq .Values.mode "gateway") (not .Values.archive.urlSecret) }}true{{ end -}}
{{- end -}}

{{- /* "true" where monitors keep past sessions in a database that they share. */ -}}
{{- define "offrails.archiveShared" -}}
{{- if and .Values.archive.enabled (ne .Values.mode "sidecar") .Values.archive.urlSecret }}true{{ end -}}
{{- end -}}

{{- define "offrails.volumes" -}}
- name: offrails-specs
  configMap:
    name: {{ include "offrails.name" . }}-specs
    {{- if eq .Values.mode "sidecar" }}
    optional: true # without it, the agent starts all the same
    {{- end }}
{{- if eq .Values.mode "sidecar" }}
- name: offrails-last-good # the last specs that compiled, over restarts of the container
  emptyDir: {sizeLimit: 32Mi}
- name: offrails-mark # that a container of this pod ran before
  emptyDir: {sizeLimit: 1Mi}
{{- end }}
{{- if .Values.config }}
- name: offrails-config
  configMap: {name: {{ include "offrails.name" . }}-config}
{{- end }}
{{- if and .Values.state.enabled (eq .Values.mode "gateway") }}
- name: offrails-state
  persistentVolumeClaim: {claimName: {{ include "offrails.name" . }}-state}
{{- else if and .Values.state.enabled (ne .Values.mode "fleet") }}
- name: offrails-state # as long as the pod
  emptyDir: {sizeLimit: {{ .Values.state.size }}}
{{- end }}
{{- if include "offrails.archived" . }}
- name: offrails-archive
  persistentVolumeClaim: {claimName: {{ include "offrails.name" . }}-archive}
{{- end }}
{{- range $folder, $secret := .Values.secrets }}
- name: offrails-{{ $folder }}
  secret: {secretName: {{ $secret }}}
{{- end }}
{{- end -}}

{{- define "offrails.claim" -}}
accessModes: [ReadWriteOnce]
{{- with .storageClass }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests: {storage: {{ .size }}}
{{- end -}}
