{{- define "sluice.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* Selects the pods of one component: a dict of root and component. */ -}}
{{- define "sluice.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "sluice.metadata" -}}
name: {{ include "sluice.fullname" .root }}-{{ .component }}
labels:
  {{- include "sluice.labels" . | nindent 2 }}
{{- end -}}

{{- define "sluice.image" -}}
{{- $image := .root.Values.image -}}
{{- if and $image.digest (not .tag) -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ .tag | default $image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* The pools with their defaults, as JSON: {name: {…}}. */ -}}
{{- define "sluice.workers" -}}
{{- $pools := dict -}}
{{- range $name, $given := .Values.workers -}}
{{- if $given -}}
{{- $_ := set $pools $name (mergeOverwrite (deepCopy $.Values.workerDefaults) (deepCopy $given)) -}}
{{- end -}}
{{- end -}}
{{- toJson $pools -}}
{{- end -}}

{{- define "sluice.catalogueConfigMap" -}}
{{- .Values.catalogue.configMap | default (printf "%s-catalogue" (include "sluice.fullname" .)) -}}
{{- end -}}

{{- /* The settings of a process: first the chart's, then those of the values. */ -}}
{{- define "sluice.environment" -}}
{{- $root := .root -}}
{{- range $name, $value := mergeOverwrite (deepCopy .computed) (deepCopy $root.Values.settings) (deepCopy .settings) }}
- { name: {{ $name }}, value: {{ $value | quote }} }
{{- end }}
- { name: OPERATIONS_HOST, value: {{ $root.Values.listenAddress | quote }} }
- { name: OPERATIONS_PORT, value: "9100" }
- { name: SLUICE_CATALOGUE, value: /etc/sluice/catalogue.yaml }
- { name: USAGE_DIRECTORY, value: /var/lib/sluice/usage }
- { name: REDIS_URL, valueFrom: { secretKeyRef: { name: {{ $root.Values.secrets.redis }}, key: REDIS_URL } } }
{{- if $root.Values.simulator.enabled }}
- { name: SIMULATOR_URL, value: "http://{{ include "sluice.fullname" $root }}-simulator:8089" }
{{- end }}
{{- end -}}

{{- /* Upstreams' credentials: their values for workers; for others only that they exist. */ -}}
{{- define "sluice.credentials" -}}
{{- range .root.Values.credentials }}
{{- if $.isWorker }}
- { name: {{ . }}, valueFrom: { secretKeyRef: { name: {{ $.root.Values.secrets.upstreams }}, key: {{ . }} } } }
{{- else }}
- { name: {{ . }}, value: configured }
{{- end }}
{{- end }}
{{- end -}}

{{- /*
A Deployment's selector, strategy and pod. A dict of root, component, args, environment (YAML), ports (name: number), probePort, readyPath, graceSeconds,
startSeconds, resources, scheduling, imageTag, serviceAccount, hasState (mounts the catalogue and the usage directory).
*/ -}}
{{- define "sluice.deployment" -}}
selector:
  matchLabels:
    {{- include "sluice.selector" . | nindent 4 }}
strategy:
  rollingUpdate: { maxSurge: 25%, maxUnavailable: 0 }
template:
  metadata:
    labels:
      {{- include "sluice.labels" . | nindent 6 }}
  spec:
    serviceAccountName: {{ .serviceAccount | default "default" }}
    automountServiceAccountToken: false
    enableServiceLinks: false
    terminationGracePeriodSeconds: {{ .graceSeconds }}
    {{- with .root.Values.image.pullSecrets }}
    imagePullSecrets:
      {{- range . }}
      - name: {{ . }}
      {{- end }}
    {{- end }}
    securityContext:
      runAsNonRoot: true
      runAsUser: 1000
      runAsGroup: 1000
      fsGroup: 1000
      fsGroupChangePolicy: OnRootMismatch
      seccompProfile: { type: RuntimeDefault }
    topologySpreadConstraints:
      {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
      - topologyKey: {{ . }}
        maxSkew: 1
        whenUnsatisfiable: ScheduleAnyway
        matchLabelKeys: [pod-template-hash]
        labelSelector:
          matchLabels:
            {{- include "sluice.selector" $ | nindent 12 }}
      {{- end }}
    {{- with .scheduling }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    containers:
      - name: sluice
        image: {{ include "sluice.image" (dict "root" .root "tag" .imageTag) }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        command: [node]
        args: {{ toJson .args }}
        env:
          {{- .environment | nindent 10 }}
        ports:
          {{- range $name, $port := .ports }}
          - { name: {{ $name }}, containerPort: {{ $port }} }
          {{- end }}
        startupProbe:
          httpGet: { path: /healthz, port: {{ .probePort }} }
          periodSeconds: 1
          failureThreshold: {{ .startSeconds | default 60 }}
          timeoutSeconds: 3
        readinessProbe:
          httpGet: { path: {{ .readyPath | default "/readyz" }}, port: {{ .probePort }} }
          periodSeconds: 2
          failureThreshold: 2
          timeoutSeconds: 3
        livenessProbe:
          httpGet: { path: /healthz, port: {{ .probePort }} }
          periodSeconds: 10
          failureThreshold: 6
          timeoutSeconds: 5
        resources:
          {{- toYaml .resources | nindent 10 }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: { drop: [ALL] }
        volumeMounts:
          - { name: tmp, mountPath: /tmp }
          {{- if .hasState }}
          - { name: catalogue, mountPath: /etc/sluice, readOnly: true }
          - { name: usage, mountPath: /var/lib/sluice/usage }
          {{- end }}
    volumes:
      - { name: tmp, emptyDir: { sizeLimit: 1Gi } }
      {{- if .hasState }}
      - { name: catalogue, configMap: { name: {{ include "sluice.catalogueConfigMap" .root }} } }
      {{- if .root.Values.usage.claim }}
      - { name: usage, persistentVolumeClaim: { claimName: {{ .root.Values.usage.claim }} } }
      {{- else }}
      - { name: usage, emptyDir: { sizeLimit: {{ .root.Values.usage.sizeLimit }} } }
      {{- end }}
      {{- end }}
{{- end -}}

{{- /* How long a pod may take after its drain time: to close connections and to write its last usage records. */ -}}
{{- define "sluice.stopMarginSeconds" -}}15{{- end -}}

{{- /* At most one pod of a component is evicted at a time; one that is not ready may always be. */ -}}
{{- define "sluice.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "sluice.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "sluice.selector" . | nindent 6 }}
{{- end -}}

{{- /* A rule for one server: peers and ports; without peers any address. */ -}}
{{- define "sluice.egress" -}}
- ports:
    {{- range .ports }}
    - { port: {{ . }}, protocol: TCP }
    {{- end }}
  {{- with .peers }}
  to: {{ toJson . }}
  {{- end }}
{{- end -}}

{{- /* A rule for public addresses at the given ports: no private network, no metadata service of a cloud. */ -}}
{{- define "sluice.internet" -}}
- ports:
    {{- range . }}
    - { port: {{ . }}, protocol: TCP }
    {{- end }}
  to:
    - ipBlock:
        cidr: 0.0.0.0/0
        except: [0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, 192.168.0.0/16, 198.18.0.0/15, 224.0.0.0/4, 240.0.0.0/4]
    - ipBlock:
        cidr: 2000::/3
        except: [2001:db8::/32, 2002::/16]
{{- end -}}
