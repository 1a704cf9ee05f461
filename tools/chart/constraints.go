package chart

import (
	"github.com/ebb-agent/ebb/agent/cluster/config"
	nodeconfig "github.com/ebb-agent/ebb/agent/node/config"
)

// Parts of schemas.
var (
	text     = schema{"type": "string"}
	texts    = schema{"type": "array", "items": text}
	labels   = schema{"type": "object", "additionalProperties": text}
	share    = schema{"type": []string{"string", "integer"}, "pattern": `^[1-9]?[0-9]%$|^100%$`, "minimum": 0}
	environ  = schema{"type": "array", "items": schema{"type": "object", "required": []string{"name"}}}
	name     = matching(`^$|^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	port     = schema{"type": "integer", "minimum": 1, "maximum": 65535}
	seconds  = schema{"type": "integer", "minimum": 1, "maximum": 3600}
	path     = schema{"type": "string", "pattern": `^(/[^/\s]+)+$|^$`}
	mode     = oneOf("observe", "enforce")
	mapping  = schema{"type": "object"} // checked by Kubernetes
	mappings = schema{"type": "array", "items": mapping}
	profile  = closed(schema{
		"type":             oneOf("RuntimeDefault", "Localhost", "Unconfined"),
		"localhostProfile": text,
	}, "type")
	tolerations = schema{"type": "array", "items": closed(schema{
		"key": text, "operator": oneOf("Exists", "Equal"), "value": text,
		"effect":            oneOf("", "NoSchedule", "PreferNoSchedule", "NoExecute"),
		"tolerationSeconds": schema{"type": "integer"},
	})}
	quantities = schema{"type": "object", "additionalProperties": schema{
		"type": []string{"string", "number"}, "pattern": `^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$`}}
	resources = closed(schema{"requests": quantities, "limits": quantities, "claims": mappings})
	types     = schema{"type": "array", "items": closed(schema{
		"apiGroups": atLeastOne(text),
		"resources": atLeastOne(schema{"type": "string", "minLength": 1}),
	}, "apiGroups", "resources")}
)

func oneOf(values ...string) schema { return schema{"type": "string", "enum": values} }

func atLeastOne(items schema) schema {
	return schema{"type": "array", "minItems": 1, "items": items}
}

func matching(pattern string) schema { return schema{"type": "string", "pattern": pattern} }

// rolling is the schema of an update strategy with these types.
func rolling(surge schema, types ...string) schema {
	return closed(schema{"type": oneOf(types...), "rollingUpdate": closed(schema{"maxUnavailable": share, "maxSurge": surge})})
}

// profiles is the schema of agent.profiles: further DaemonSets of the agent, by name. A profile cannot
// set pods, because all agents share one set of rights and so one source of pods. It cannot set where
// containerd, the kubelet and ebb's own files are, either: the Job that unloads uses those of agent.config.
func profiles() schema {
	config := nodeSchema(nodeconfig.Default())
	drop(config, "pods", "runtime", "state")
	properties := config["properties"].(schema)
	drop(properties["kernel"].(schema), "pinDirectory")
	drop(properties["filesystems"].(schema), "kubelet")
	return schema{"type": "object", "additionalProperties": false, "patternProperties": schema{
		`^[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?$`: closed(schema{"mode": mode, "config": config}, "mode"),
	}}
}

// constraints are the schemas of values that their defaults do not determine, by dotted path.
var constraints = map[string]schema{
	"nameOverride":     matching(`^$|^[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?$`),
	"fullnameOverride": matching(`^$|^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`),
	"commonLabels":     labels,
	"imagePullSecrets": schema{"type": "array", "items": closed(schema{"name": text}, "name")},

	// A name without tag, as distribution/reference defines it. It has no characters that are special in
	// a keep rule.
	"image.repository":  matching(`^[a-zA-Z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`),
	"image.registry":    matching(`^$|^[a-zA-Z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`),
	"image.tag":         matching(`^$|^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}$`),
	"image.digest":      matching(`^$|^sha256:[0-9a-f]{64}$`),
	"image.pullPolicy":  oneOf("IfNotPresent", "Always", "Never"),
	"image.pullSecrets": texts,
	"apiServer.port":    schema{"type": []string{"string", "integer"}, "pattern": `^[0-9]{0,5}$`, "minimum": 1, "maximum": 65535},

	"agent.mode":                          mode,
	"agent.config":                        nodeSchema(nodeconfig.Default()),
	"agent.profiles":                      profiles(),
	"agent.layout":                        oneOf("containerd", "k3s", "rke2", "microk8s", "k0s"),
	"agent.containerd.socket":             path,
	"agent.containerd.root":               path,
	"agent.kubeletRoot":                   path,
	"agent.metrics.port":                  port,
	"agent.metrics.webConfigSecret":       name,
	"agent.health.port":                   port,
	"agent.capabilities":                  schema{"type": "array", "items": matching(`^[A-Z_]+$`)},
	"agent.appArmorProfile":               profile,
	"agent.seccompProfile":                profile,
	"agent.seLinuxOptions":                closed(schema{"type": text, "level": text, "role": text, "user": text}),
	"agent.tolerations":                   tolerations,
	"agent.nodeSelector":                  labels,
	"agent.affinity":                      mapping,
	"agent.resources":                     resources,
	"agent.updateStrategy":                rolling(schema{"type": "integer", "enum": []int{0}}, "RollingUpdate", "OnDelete"),
	"agent.extraArgs":                     texts,
	"agent.extraEnv":                      environ,
	"agent.extraVolumes":                  mappings,
	"agent.extraVolumeMounts":             mappings,
	"agent.terminationGracePeriodSeconds": seconds,
	"agent.podAnnotations":                labels,
	"agent.podLabels":                     labels,
	"agent.serviceAccount.name":           name,
	"agent.serviceAccount.annotations":    labels,

	"controller.mode":                          mode,
	"controller.config":                        clusterSchema(config.Default()),
	"controller.replicas":                      schema{"type": "integer", "minimum": 0, "maximum": 10},
	"controller.metrics.port":                  port,
	"controller.metrics.webConfigSecret":       name,
	"controller.health.port":                   port,
	"controller.rbac.types":                    types,
	"controller.flowSchema.shares":             schema{"type": "integer", "minimum": 1, "maximum": 10000},
	"controller.seccompProfile":                profile,
	"controller.tolerations":                   tolerations,
	"controller.nodeSelector":                  labels,
	"controller.affinity":                      mapping,
	"controller.extraVolumes":                  mappings,
	"controller.extraVolumeMounts":             mappings,
	"controller.resources":                     resources,
	"controller.terminationGracePeriodSeconds": seconds,
	"controller.podAnnotations":                labels,
	"controller.podLabels":                     labels,
	"controller.serviceAccount.name":           name,
	"controller.updateStrategy":                rolling(share, "RollingUpdate", "Recreate"),
	"controller.extraArgs":                     texts,
	"controller.extraEnv":                      environ,
	"controller.serviceAccount.annotations":    labels,

	"uninstall.unload.timeout": matching(`^([0-9]+(s|m|h))+$`),

	"admission.mode":               oneOf("off", "warn", "deny"),
	"networkPolicy.from":           mappings,
	"networkPolicy.apiServerPorts": atLeastOne(port),
	"podMonitor.interval":          matching(`^$|^[0-9]+(ms|s|m|h)$`),
	"podMonitor.labels":            labels,
	"podMonitor.scheme":            oneOf("", "http", "https"),
	"podMonitor.tlsConfig":         mapping,
	"podMonitor.basicAuth":         mapping,
	"podMonitor.relabelings":       mappings,
	"podMonitor.metricRelabelings": mappings,
	"prometheusRule.labels":        labels,
	"dashboard.labels":             labels,
	"dashboard.annotations":        labels,
}
