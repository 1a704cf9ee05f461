package chart

import (
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/agent/cluster"
	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
)

// policyRule is a rule of a role.
type policyRule struct {
	APIGroups []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
}

// rights returns a YAML document with the rules that each collector needs with its default settings,
// in all namespaces, by collector and mode. The template adds the rules that other settings need.
func rights() ([]byte, error) {
	all := make(map[gc.Collector]map[config.Mode][]policyRule)
	for _, name := range cluster.Collectors() {
		all[name] = make(map[config.Mode][]policyRule)
		for _, mode := range []config.Mode{config.Observe, config.Enforce} {
			all[name][mode] = rules(cluster.RightsOf(name, mode))
		}
	}
	data, err := yaml.Marshal(all)
	return append([]byte("# Made from agent/cluster/registry.go by make generate.\n"), data...), err
}

// rules groups rights: the verbs of a resource, and the resources of a group that have the same
// verbs.
func rules(rights []cluster.Right) (list []policyRule) {
	type resource struct{ group, name string }
	verbs := make(map[resource][]string)
	var order []resource
	for _, r := range rights {
		key := resource{r.Group, r.Resource}
		if r.Namespace != "" {
			continue
		}
		if verbs[key] == nil {
			order = append(order, key)
		}
		verbs[key] = append(verbs[key], r.Verb)
	}
	slices.SortFunc(order, func(a, b resource) int { return strings.Compare(a.group+"/"+a.name, b.group+"/"+b.name) })
	for _, of := range order {
		last := len(list) - 1
		if last >= 0 && list[last].APIGroups[0] == of.group && slices.Equal(list[last].Verbs, verbs[of]) {
			list[last].Resources = append(list[last].Resources, of.name)
			continue
		}
		list = append(list, policyRule{[]string{of.group}, []string{of.name}, verbs[of]})
	}
	return list
}
