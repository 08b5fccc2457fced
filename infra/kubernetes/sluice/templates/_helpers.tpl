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
app.kubernetes.io/version: {{ .imageTag | default .root.Values.image.tag | default .root.Chart.AppVersion | quote }}
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

{{- /* Refuses a secret as the plain value of a setting: a dict of root, name, value and where. */ -}}
{{- define "sluice.checkPlain" -}}
{{- $secrets := .root.Files.Lines "files/secrets.txt" -}}
{{- range $upstream := (.root.Values.catalogue.content | fromYaml).upstreams -}}
{{- $secrets = concat $secrets ($upstream.credentials | default list) (list ($upstream.credential | default "")) -}}
{{- end -}}
{{- $isSecret := or (has .name $secrets) (regexMatch "(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD)(_?[0-9]+)?$" .name) -}}
{{- if or $isSecret (regexMatch "://[^/?#]*@" .value) -}}
{{- fail (printf "%s: the value of %s would show a secret to everybody who may read Deployments; put it into a Secret, and name that in `secrets`, or in a valueFrom or envFrom of `pod`" .where .name) -}}
{{- end -}}
{{- end -}}

{{- /* Whether callers may upload files: "true" or empty. */ -}}
{{- define "sluice.hasFiles" -}}
{{- if and .Values.control.enabled (or .Values.files.claim .Values.files.bucket) -}}true{{- end -}}
{{- end -}}

{{- /* The key NAME of a Secret as a variable: a dict of secret, name, isOptional. */ -}}
{{- define "sluice.reference" -}}
{{- $reference := dict "name" .secret "key" .name -}}
{{- if .isOptional }}{{ $_ := set $reference "optional" true }}{{ end -}}
{{- dict "name" .name "valueFrom" (dict "secretKeyRef" $reference) | toJson -}}
{{- end -}}

{{- /*
The environment of a container, as YAML: the chart's own variables, the settings of the values, and the variables of `pod.env`. A dict like that of
sluice.deployment, with pod merged.
*/ -}}
{{- define "sluice.environment" -}}
{{- $root := .root -}}
{{- $component := .component -}}
{{- $own := deepCopy .own -}}
{{- $references := list -}}
{{- $settings := .settings | default dict -}}
{{- range .required }}{{ $references = append $references (dict "secret" $.secret "name" . "isOptional" false) }}{{ end -}}
{{- range .optional }}{{ $references = append $references (dict "secret" $.secret "name" . "isOptional" true) }}{{ end -}}
{{- if and (has .component (list "ingress" "control")) (include "sluice.hasFiles" $root) -}}
{{- $references = append $references (dict "secret" $root.Values.secrets.control "name" "INTERNAL_SECRET" "isOptional" false) -}}
{{- end -}}
{{- if and $root.Values.control.enabled (or (hasPrefix "worker-" $component) (eq $component "control")) -}}
{{- $references = append $references (dict "secret" $root.Values.secrets.control "name" "CREDENTIALS_SECRET" "isOptional" true) -}}
{{- end -}}
{{- if .isGateway -}}
{{- $settings = mergeOverwrite (deepCopy (.defaults | default dict)) (deepCopy $root.Values.settings) (deepCopy $settings) -}}
{{- $own = merge $own (dict "OPERATIONS_HOST" $root.Values.listenAddress "OPERATIONS_PORT" "9100" "SLUICE_CATALOGUE" "/etc/sluice/catalogue.yaml" "USAGE_DIRECTORY" "/var/lib/sluice/usage") -}}
{{- $references = append $references (dict "secret" $root.Values.secrets.redis "name" "REDIS_URL") -}}
{{- if $root.Values.simulator.enabled }}{{ $_ := set $own "SIMULATOR_URL" (printf "http://%s-simulator:8089" (include "sluice.fullname" $root)) }}{{ end -}}
{{- /* Upstreams' credentials: their values for workers; for others only that they exist. */ -}}
{{- range $root.Values.credentials -}}
{{- if hasPrefix "worker-" $component -}}
{{- $references = append $references (dict "secret" $root.Values.secrets.upstreams "name" .) -}}
{{- else -}}
{{- $_ := set $own . "configured" -}}
{{- end -}}
{{- end -}}
{{- range $root.Values.credentialFiles -}}
{{- if hasPrefix "worker-" $component -}}
{{- $_ := set $own (printf "%s_FILE" .) (printf "/run/secrets/upstreams/%s" .) -}}
{{- else -}}
{{- $_ := set $own . "configured" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $root.Values.certificateAuthorities }}{{ $_ := set $own "NODE_EXTRA_CA_CERTS" "/run/certificates/ca.crt" }}{{ end -}}
{{- $names := keys $own -}}
{{- range $references }}{{ $names = append $names .name }}{{ end -}}
{{- range $name, $value := $own }}
- { name: {{ $name }}, value: {{ $value | quote }} }
{{- end }}
{{- range $references }}
- {{ include "sluice.reference" . }}
{{- end }}
{{- range $name, $value := $settings }}
{{- if has $name $names }}{{ fail (printf "settings of %s: the chart itself sets %s" $component $name) }}{{ end }}
{{- include "sluice.checkPlain" (dict "root" $root "name" $name "value" ($value | default "") "where" (printf "settings of %s" $component)) }}
- { name: {{ $name }}, value: {{ $value | quote }} }
{{- end }}
{{- $names = concat $names (keys $settings) -}}
{{- range .pod.env }}
{{- if has .name $names }}{{ fail (printf "pod.env of %s: %s is set already" $component .name) }}{{ end }}
{{- $names = append $names .name }}
{{- if not .valueFrom }}{{ include "sluice.checkPlain" (dict "root" $root "name" .name "value" (.value | default "") "where" (printf "pod.env of %s" $component)) }}{{ end }}
- {{ toJson . }}
{{- end }}
{{- end -}}

{{- /* What `pod` and the role's own `pod` add together, as JSON. */ -}}
{{- define "sluice.pod" -}}
{{- $all := .root.Values.pod -}}
{{- $own := .pod | default dict -}}
{{- $pod := dict -}}
{{- range list "annotations" "labels" }}{{ $_ := set $pod . (mergeOverwrite (deepCopy (get $all . | default dict)) (get $own . | default dict)) }}{{ end -}}
{{- range list "env" "envFrom" "volumes" "volumeMounts" }}{{ $_ := set $pod . (concat (get $all . | default list) (get $own . | default list)) }}{{ end -}}
{{- toJson $pod -}}
{{- end -}}

{{- define "sluice.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- define "sluice.certificatesContainer" -}}
{{- if .root.Values.certificateAuthorities }}
initContainers:
  # Node reads further authorities from one file.
  - name: certificates
    image: {{ include "sluice.image" (dict "root" .root "tag" .imageTag) }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    command: [sh, -c, "awk 1 /run/authorities/* > /run/certificates/ca.crt"]
    resources: { requests: { cpu: 10m, memory: 32Mi }, limits: { memory: 32Mi } }
    securityContext:
      {{- include "sluice.securityContext" . | nindent 6 }}
    volumeMounts:
      - { name: authorities, mountPath: /run/authorities, readOnly: true }
      - { name: certificates, mountPath: /run/certificates }
{{- end }}
{{- end -}}

{{- define "sluice.certificatesVolumes" -}}
{{- with .root.Values.certificateAuthorities }}
- { name: certificates, emptyDir: { sizeLimit: 4Mi } }
- name: authorities
  projected:
    sources:
      {{- range $index, $authority := . }}
      {{- $items := list (dict "key" ($authority.key | default "ca.crt") "path" (printf "%d.crt" $index)) }}
      {{- if $authority.secret }}
      - secret: { name: {{ $authority.secret }}, items: {{ toJson $items }} }
      {{- else }}
      - configMap: { name: {{ $authority.configMap }}, items: {{ toJson $items }} }
      {{- end }}
      {{- end }}
{{- end }}
{{- end -}}

{{- /*
A Deployment's selector, strategy and pod. A dict of root, component, args, ports (name: number), probePort, readyPath, graceSeconds, startSeconds, resources,
scheduling, imageTag, serviceAccount, pod, isGateway (has the settings, the catalogue and the usage directory), own (variables that the chart sets), defaults
(variables that settings replace), settings, filesClaim (of files), and of a Secret: secret (its name), required and optional (its keys).
*/ -}}
{{- define "sluice.deployment" -}}
{{- $pod := include "sluice.pod" . | fromJson -}}
{{- $credentialFiles := hasPrefix "worker-" .component | ternary .root.Values.credentialFiles list -}}
selector:
  matchLabels:
    {{- include "sluice.selector" . | nindent 4 }}
strategy:
  rollingUpdate: { maxSurge: 25%, maxUnavailable: 0 }
template:
  metadata:
    labels:
      {{- include "sluice.labels" . | nindent 6 }}
      {{- with $pod.labels }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- with $pod.annotations }}
    annotations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
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
    {{- include "sluice.certificatesContainer" . | nindent 4 }}
    containers:
      - name: sluice
        image: {{ include "sluice.image" (dict "root" .root "tag" .imageTag) }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        command: [node]
        args: {{ toJson .args }}
        env:
          {{- include "sluice.environment" (merge (dict "pod" $pod) .) | trim | nindent 10 }}
        {{- with $pod.envFrom }}
        envFrom:
          {{- toYaml . | nindent 10 }}
        {{- end }}
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
          {{- include "sluice.securityContext" . | nindent 10 }}
        volumeMounts:
          - { name: tmp, mountPath: /tmp }
          {{- if .isGateway }}
          - { name: catalogue, mountPath: /etc/sluice, readOnly: true }
          - { name: usage, mountPath: /var/lib/sluice/usage }
          {{- end }}
          {{- if $credentialFiles }}
          - { name: upstreams, mountPath: /run/secrets/upstreams, readOnly: true }
          {{- end }}
          {{- if .root.Values.certificateAuthorities }}
          - { name: certificates, mountPath: /run/certificates, readOnly: true }
          {{- end }}
          {{- if .filesClaim }}
          - { name: files, mountPath: /var/lib/sluice/files }
          {{- end }}
          {{- with $pod.volumeMounts }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
    volumes:
      - { name: tmp, emptyDir: { sizeLimit: 1Gi } }
      {{- include "sluice.certificatesVolumes" . | nindent 6 }}
      {{- if $credentialFiles }}
      - name: upstreams
        secret:
          secretName: {{ .root.Values.secrets.upstreams }}
          # For the group of the processes, 0440.
          defaultMode: 288
          items:
            {{- range $credentialFiles }}
            - { key: {{ . }}, path: {{ . }} }
            {{- end }}
      {{- end }}
      {{- with .filesClaim }}
      - { name: files, persistentVolumeClaim: { claimName: {{ . }} } }
      {{- end }}
      {{- with $pod.volumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
      {{- if .isGateway }}
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
