{{- define "offrails.name" -}}
{{- ternary .Release.Name (printf "%s-offrails" .Release.Name) (contains "offrails" .Release.Name) | trunc 53 | trimSuffix "-" -}}
{{- end -}}

{{- define "offrails.selector" -}}
app.kubernetes.io/name: offrails
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
    - {name: metrics, containerPort: 9464, protocol: TCP}
  {{- if ne .Values.mode "sidecar" }}
  startupProbe:
    httpGet: {path: /-/ready, port: metrics}
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
    {{- range $folder, $secret := .Values.secrets }}
    - {name: offrails-{{ $folder }}, mountPath: /etc/offrails/{{ $folder }}, readOnly: true}
    {{- end }}
  {{- with .Values.env }}
  env:
    {{- range $name, $value := . }}
    - {name: {{ $name }}, value: {{ $value | quote }}}
    {{- end }}
  {{- end }}
{{- end -}}

{{- define "offrails.volumes" -}}
- name: offrails-specs
  configMap:
    name: {{ include "offrails.name" . }}-specs
    {{- if eq .Values.mode "sidecar" }}
    optional: true # without it, the agent starts all the same
    {{- end }}
{{- range $folder, $secret := .Values.secrets }}
- name: offrails-{{ $folder }}
  secret: {secretName: {{ $secret }}}
{{- end }}
{{- end -}}
