package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRightsFollowCollectors: with types that are named, each collector that is on has the
// rights that it needs, and no other; it is on unless somebody turns it off.
func TestRightsFollowCollectors(t *testing.T) {
	const driver = "drivers[0].name=a.example.com,drivers[0].socket=/run/csi/a.sock"
	for _, test := range []struct {
		collector, set string
		want           []string // resource and verb
		not            []string
	}{
		{"pods", "mode=off", nil, []string{"pods get", "nodes get"}},
		{"pods", "", []string{"pods watch", "nodes get"}, []string{"pods delete", "pods/status patch"}},
		{"pods", "mode=enforce", []string{"pods delete", "pods/status patch"}, []string{"nodes delete", "pods patch"}},
		{"jobs", "mode=off", nil, []string{"jobs get"}},
		{"jobs", "", []string{"jobs watch"}, []string{"jobs delete"}},
		{"jobs", "mode=enforce", []string{"jobs delete"}, []string{"jobs patch"}},
		{"csrs", "mode=off", nil, []string{"certificatesigningrequests get"}},
		{"csrs", "", []string{"certificatesigningrequests watch", "podcertificaterequests list"}, []string{"certificatesigningrequests delete"}},
		{"csrs", "mode=enforce", []string{"certificatesigningrequests delete", "podcertificaterequests delete"}, nil},
		{"leases", "mode=off", nil, []string{"leases get"}},
		{"leases", "", []string{"leases watch", "nodes get", "pods get"}, []string{"leases delete", "pods list"}},
		{"leases", "mode=enforce", []string{"leases delete"}, []string{"nodes delete", "pods delete"}},
		{"nodes", "mode=off", nil, []string{"nodes get"}},
		{"nodes", "", []string{"nodes watch", "leases get", "volumeattachments watch"}, []string{"nodes delete"}},
		{"nodes", "mode=enforce", []string{"nodes delete"}, []string{"leases delete", "volumeattachments delete"}},
		{"volumes", "mode=off," + driver, nil, []string{"persistentvolumes get", "secrets get"}},
		{"volumes", "", []string{"persistentvolumes watch", "csidrivers list", "nodes get"}, []string{"persistentvolumes delete", "secrets get", "volumeattachments delete"}},
		{"volumes", "mode=enforce," + driver, []string{"persistentvolumes delete", "persistentvolumes patch", "pods list", "secrets get"}, []string{"secrets list", "volumeattachments delete", "csinodes delete"}},
		{"volumes", "mode=enforce,attachments=true,csiNodes=true", []string{"volumeattachments delete", "csinodes delete"}, []string{"persistentvolumes delete", "secrets get"}},
	} {
		// A socket needs its mount.
		set := []string{"controller.rbac.types[0].apiGroups={apps},controller.rbac.types[0].resources={deployments}",
			"controller.extraVolumes[0].name=csi,controller.extraVolumes[0].hostPath.path=/run/csi",
			"controller.extraVolumeMounts[0].name=csi,controller.extraVolumeMounts[0].mountPath=/run/csi"}
		for _, name := range []string{"pods", "jobs", "csrs", "leases", "nodes", "volumes"} {
			if name != test.collector {
				set = append(set, "controller.config.collectors."+name+".mode=off")
			}
		}
		for value := range strings.SplitSeq(test.set, ",") {
			if value != "" {
				set = append(set, "controller.config.collectors."+test.collector+"."+value)
			}
		}
		type rule struct{ Resources, Verbs []string }
		var got []string
		for _, r := range convert[struct{ Rules []rule }](t, render(t, set...)["ClusterRole/ebb-controller"]).Rules {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					got = append(got, resource+" "+verb)
				}
			}
		}
		for _, right := range test.want {
			if !slices.Contains(got, right) {
				t.Errorf("%s, %q: not %s", test.collector, test.set, right)
			}
		}
		for _, right := range append(test.not, "* get") {
			if slices.Contains(got, right) {
				t.Errorf("%s, %q: %s", test.collector, test.set, right)
			}
		}
	}
}

// TestRightToEvents: the agent may write Events where it does, in one namespace, and reads
// in its configuration whether it is to.
func TestRightToEvents(t *testing.T) {
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
		role := objects["Role/ebb-agent"]
		if may := role != nil && objects["RoleBinding/ebb-agent"] != nil; may != want.may {
			t.Errorf("%q: it may: %v", set, may)
		}
		if does := agentConfig(t, objects).Pods.APIServer.Events; does != want.does {
			t.Errorf("%q: it is to: %v", set, does)
		}
		if !want.may {
			continue
		}
		rules := convert[struct{ Rules []rule }](t, role).Rules
		if diff := cmp.Diff([]rule{{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}}}, rules); diff != "" || at[string](role, "metadata", "namespace") != "default" {
			t.Errorf("%q: %s", set, diff)
		}
	}
}

// TestSockets: what the controller is to reach can be mounted.
func TestSockets(t *testing.T) {
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
