package chart

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/agent/cluster"
	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
	"github.com/ebb-agent/ebb/policy/volumes"
)

// rendered is the chart with the controller.
func rendered(t *testing.T, args ...string) []Document {
	t.Helper()
	h, err := helm()
	if err != nil {
		t.Fatal(err)
	}
	list, err := h.Template(t.Context(), append([]string{"--set", "controller.enabled=true"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// rightsOf are the rules of the controller's roles, but for those that it has in its own namespace.
func rightsOf(t *testing.T, args ...string) (all []cluster.Right, c config.Config) {
	t.Helper()
	var err error
	for _, d := range rendered(t, args...) {
		var o struct {
			Kind     string
			Metadata struct{ Namespace string }
			Data     map[string]string
			Rules    []rule
		}
		if err := yaml.Unmarshal(d.Text, &o); err != nil {
			t.Fatal(err)
		}
		if text := o.Data["controller.yaml"]; text != "" {
			if c, err = config.Parse([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if !strings.HasPrefix(d.Template, "controller/") || o.Metadata.Namespace == Namespace {
			continue
		}
		for _, r := range o.Rules {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, verb := range r.Verbs {
						all = append(all, cluster.Right{Namespace: o.Metadata.Namespace, Group: group, Resource: resource, Verb: verb})
					}
				}
			}
		}
	}
	return all, c
}

// TestRightsFollowModes: in each mode of the controller and of each collector, the rules are those
// that the code needs, all of them and no other. What observes may read alone.
func TestRightsFollowModes(t *testing.T) {
	t.Parallel()
	collectors := cluster.Collectors()
	more := map[gc.Collector][]string{
		"leases": {`elections=[{"names":["a"],"after":"1h","delete":true,"namespaces":["one","two"]},{"names":["b"],"after":"1h"}]`,
			`elections=[{"names":["a"],"after":"1h","delete":true,"namespaces":["team-*","kube-node-lease"]}]`, `elections=[{"names":["a"],"after":"1h","delete":true}]`},
		"nodes":   {`label="gone"`},
		"volumes": {`drivers=[{"name":"a.example.com","socket":"/run/csi/a.sock"}]`, "attachments=true", "csiNodes=true", `csiNodes=true;attachments=true;drivers=[{"name":"a.example.com","socket":"/run/csi/a.sock"}]`},
	}
	check := func(mode string, modes map[gc.Collector]string, options ...string) {
		t.Helper()
		what := fmt.Sprint(mode, " ", modes, " ", options)
		args := []string{"--set", "controller.mode=" + mode, "--set", "controller.rbac.types[0].apiGroups={apps},controller.rbac.types[0].resources={deployments}",
			"--set", "controller.extraVolumes[0].name=csi,controller.extraVolumes[0].hostPath.path=/run/csi",
			"--set", "controller.extraVolumeMounts[0].name=csi,controller.extraVolumeMounts[0].mountPath=/run/csi",
			"--set", "controller.config.collectors.nodes.inventory.url=https://machines.example"}
		for _, name := range collectors {
			args = append(args, "--set", fmt.Sprintf("controller.config.collectors.%s.mode=%s", name, cmp.Or(modes[name], "off")))
		}
		for _, o := range options {
			args = append(args, "--set-json", o)
		}
		got, c := rightsOf(t, args...)
		got = slices.DeleteFunc(got, func(r cluster.Right) bool { // in all modes, and the cascade's
			return slices.Contains([]string{"apiextensions.k8s.io", "apiregistration.k8s.io", "apps", "events.k8s.io"}, r.Group) || r.Resource == "events"
		})
		slices.SortFunc(got, func(a, b cluster.Right) int { return strings.Compare(a.String(), b.String()) })
		if diff := gocmp.Diff(cluster.Rights(c), slices.Compact(got), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: the code's (-) and the chart's (+):\n%s", what, diff)
		}
	}
	for _, mode := range []string{"observe", "enforce"} {
		for _, name := range collectors {
			for _, of := range []string{"off", "observe", "enforce"} {
				check(mode, map[gc.Collector]string{name: of})
				if of == "off" || of == "observe" && mode == "observe" {
					continue
				}
				for _, option := range more[name] {
					var options []string
					for _, o := range strings.Split(option, ";") {
						options = append(options, fmt.Sprintf("controller.config.collectors.%s.%s", name, o))
					}
					check(mode, map[gc.Collector]string{name: of}, options...)
				}
			}
		}
		// In these rows any two collectors meet in all nine pairs of modes.
		for row := range 27 {
			mixed := map[gc.Collector]string{}
			for n, name := range collectors {
				mixed[name] = []string{"off", "observe", "enforce"}[(row/9+row/3%3*(n%3)+row%3*(n/3))%3]
			}
			check(mode, mixed, "controller.config.collectors.nodes.taint=\"gone\"")
		}
	}
}

// TestRightsWithoutOwners: while owners are observed or off, the other collectors have the rights that
// the code needs, and nothing else is changed. While they are off, nothing else is read.
func TestRightsWithoutOwners(t *testing.T) {
	t.Parallel()
	reads := []string{"get", "list", "watch"}
	for owners, want := range map[string][]string{"enforce": append(reads[:3:3], "patch", "delete"), "observe": reads, "off": nil} {
		for _, others := range []string{"enforce", "observe"} {
			args := []string{"--set", "controller.mode=enforce,controller.config.collectors.owners.mode=" + owners,
				"--set-json", `controller.config.collectors.leases.elections=[{"names":["a"],"after":"1h","delete":true,"namespaces":["one"]}]`}
			for _, name := range cluster.Collectors() {
				if mode := others; owners != "off" || name != nodes.Name && name != volumes.Name {
					args = append(args, "--set", fmt.Sprintf("controller.config.collectors.%s.mode=%s", name, mode))
				}
			}
			got, c := rightsOf(t, args...)
			var cascade []string
			journal, events := journalVerbs(t, args...), false
			got = slices.DeleteFunc(got, func(r cluster.Right) bool {
				if r.Group == "*" {
					cascade = append(cascade, r.Verb)
				}
				events = events || r.Resource == "events"
				return r.Group == "*" || r.Resource == "events" || r.Resource == "apiservices"
			})
			if wants := map[string]string{"enforce": "get list create delete update", "observe": "get list"}[owners]; journal != wants {
				t.Errorf("owners %s: of the journal %q, not %q", owners, journal, wants)
			}
			if acts := owners == "enforce" || others == "enforce"; events != acts {
				t.Errorf("owners %s, others %s: events %v", owners, others, events)
			}
			if diff := gocmp.Diff(want, cascade, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("owners %s: of any type (-want +got):\n%s", owners, diff)
			}
			if owners == "enforce" {
				continue // which has them all
			}
			slices.SortFunc(got, func(a, b cluster.Right) int { return strings.Compare(a.String(), b.String()) })
			if diff := gocmp.Diff(cluster.Rights(c), slices.Compact(got)); diff != "" {
				t.Errorf("owners %s, others %s: the code's (-) and the chart's (+):\n%s", owners, others, diff)
			}
		}
	}
}

// journalVerbs are what the controller may do with ConfigMaps in its own namespace.
func journalVerbs(t *testing.T, args ...string) string {
	var verbs []string
	for _, d := range rendered(t, args...) {
		if d.Template != "controller/rbac.yaml" {
			continue
		}
		var o struct {
			Kind     string
			Metadata struct{ Namespace string }
			Rules    []rule
		}
		if err := yaml.Unmarshal(d.Text, &o); err != nil {
			t.Fatal(err)
		}
		for _, r := range o.Rules {
			if o.Metadata.Namespace == Namespace && slices.Contains(r.Resources, "configmaps") {
				verbs = append(verbs, r.Verbs...)
			}
		}
	}
	return strings.Join(verbs, " ")
}

// TestRightsOfCascade: every type, or those that are named; to change them only in mode enforce.
func TestRightsOfCascade(t *testing.T) {
	t.Parallel()
	reads, writes := []string{"get", "list", "watch"}, []string{"patch", "delete"}
	for _, types := range []bool{false, true} {
		for mode, want := range map[string][]string{"observe": reads, "enforce": slices.Concat(reads, writes)} {
			group, resource := "*", "*"
			args := []string{"--set", "controller.mode=" + mode}
			if types {
				group, resource = "apps", "deployments"
				args = append(args, "--set", "controller.rbac.types[0].apiGroups={apps},controller.rbac.types[0].resources={deployments}")
			}
			all, _ := rightsOf(t, args...)
			var verbs []string
			events := false
			for _, r := range all {
				if r.Group == group && r.Resource == resource {
					verbs = append(verbs, r.Verb)
				}
				events = events || r.Resource == "events"
				if mode == "observe" && !slices.Contains(reads, r.Verb) {
					t.Errorf("types %v: in mode observe: %v", types, r)
				}
			}
			if diff := gocmp.Diff(want, verbs); diff != "" || events != (mode == "enforce") {
				t.Errorf("types %v, %s: events %v, %s", types, mode, events, diff)
			}
		}
	}
}

// TestRightToEvents: the agent may write Events where it does, in one namespace, and reads
// in its configuration whether it is to.
func TestRightToEvents(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]struct{ may, does bool }{
		"":                                         {true, true},
		"agent.events.enabled=true":                {true, true},
		"agent.events.enabled=false":               {false, false},
		"agent.config.pods.source=kubelet":         {false, true}, // only where it asks the API server
		"agent.config.pods.source=none":            {false, true},
		"agent.config.pods.apiserver.events=false": {false, false},
		"agent.config.pods.apiserver.events=true,agent.events.enabled=false,agent.config.pods.apiserver.listSpread=5s": {false, false},
	} {
		objects := render(t, set)
		role := objects["Role/ebb-agent-events"]
		if may := role != nil && objects["RoleBinding/ebb-agent-events"] != nil; may != want.may {
			t.Errorf("%q: it may: %v", set, may)
		}
		if does := agentConfig(t, objects).Pods.APIServer.Events; does != want.does {
			t.Errorf("%q: it is to: %v", set, does)
		}
		if !want.may {
			continue
		}
		rules := convert[struct{ Rules []rule }](t, role).Rules
		if diff := gocmp.Diff([]rule{{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}}}, rules); diff != "" || at[string](role, "metadata", "namespace") != "default" {
			t.Errorf("%q: %s", set, diff)
		}
	}
}

// TestSockets: what the controller is to reach can be mounted.
func TestSockets(t *testing.T) {
	t.Parallel()
	o := render(t, "controller.extraVolumes[0].name=csi,controller.extraVolumes[0].hostPath.path=/run/csi",
		"controller.extraVolumeMounts[0].name=csi,controller.extraVolumeMounts[0].mountPath=/run/csi")["Deployment/ebb-controller"]
	pod := at[object](o, "spec", "template", "spec")
	has := func(list any) bool {
		return slices.ContainsFunc(list.([]any), func(v any) bool { return v.(object)["name"] == "csi" })
	}
	if !has(pod["volumes"]) || !has(pod["containers"].([]any)[0].(object)["volumeMounts"]) {
		t.Errorf("%v", pod)
	}
}
