{{- define "image" -}}
{{ .Values.image.repository }}{{ with .Values.image.tag }}:{{ . }}{{ end }}
{{- end }}
{{- define "pull" -}}
{{- with .Values.image.pullSecrets }}
      imagePullSecrets:
{{- range . }}
        - {name: {{ . }}}
{{- end }}
{{- end }}
{{- end }}
{{- define "policy" -}}
{{- if ne .Values.image.pullPolicy "IfNotPresent" }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}
{{- end }}
