package chart

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	nodeconfig "github.com/ebb-agent/ebb/agent/node/config"
)

// TestAgentAlone: by default there is nothing of the controller, and nobody may change anything in the
// cluster but to write Events.
func TestAgentAlone(t *testing.T) {
	t.Parallel()
	objects := render(t, "controller.enabled=false")
	for key, o := range objects {
		if component := at[object](o, "metadata", "labels")["app.kubernetes.io/component"]; component == "controller" {
			t.Errorf("%s is there", key)
		}
		if component := at[object](o, "metadata", "labels")["app.kubernetes.io/component"]; component != "agent" {
			continue
		}
		for _, r := range convert[struct{ Rules []rule }](t, o).Rules {
			if key == "Role/ebb-agent-events" {
				continue
			}
			for _, verb := range r.Verbs {
				if !slices.Contains([]string{"get", "list", "watch"}, verb) {
					t.Errorf("%s: %+v", key, r)
				}
			}
		}
	}
	h, err := helm()
	if err != nil {
		t.Fatal(err)
	}
	list, err := h.Template(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(objects, objectsOf(t, list)); diff != "" {
		t.Errorf("that is not the default (-want +got):\n%s", diff)
	}
}

// TestProfiles: each has a DaemonSet for the nodes with its label, and a configuration that is the
// agents' own but for what the profile sets. The others leave these nodes out.
func TestProfiles(t *testing.T) {
	t.Parallel()
	plain := render(t)
	objects := render(t, "agent.profiles.canary.mode=enforce", "agent.profiles.ci.mode=enforce", "agent.profiles.ci.config.images.imageGCHighThresholdPercent=90",
		"agent.profiles.ci.config.images.keep={base}", "agent.config.images.keep={all}")
	for name, want := range map[string]func(c *nodeconfig.Config){
		"ebb-agent":        func(*nodeconfig.Config) {},
		"ebb-agent-canary": func(c *nodeconfig.Config) { c.Mode = nodeconfig.ModeEnforce },
		"ebb-agent-ci": func(c *nodeconfig.Config) {
			c.Mode, c.Images.HighThresholdPercent = nodeconfig.ModeEnforce, 90
			c.Images.Keep = []string{"all", "base", "ghcr.io/ebb-agent/ebb"}
		},
	} {
		c := agentConfig(t, render(t, "agent.config.images.keep={all}"))
		want(&c)
		text := at[string](objects["ConfigMap/"+name], "data", "agent.yaml")
		got, err := nodeconfig.Parse([]byte(text))
		if diff := cmp.Diff(c, got); diff != "" || err != nil {
			t.Errorf("%s: %v, (-want +got):\n%s", name, err, diff)
		}
		pod := podOf(t, objects["DaemonSet/"+name])
		if access, mode := mountsOf(pod)["/var/log/pods"], got.Mode; (access == "write") != (mode == nodeconfig.ModeEnforce) {
			t.Errorf("%s in mode %s has the logs of pods to %s", name, mode, access)
		}
		spec := at[object](objects["DaemonSet/"+name], "spec", "template", "spec")
		if volume := spec["volumes"].([]any)[0].(object); at[string](volume, "configMap", "name") != name {
			t.Errorf("%s takes its configuration from %v", name, volume)
		}
		profile := "default"
		selects := object{"kubernetes.io/os": "linux"}
		if name != "ebb-agent" {
			profile = name[len("ebb-agent-"):]
			selects["ebb/profile"] = profile
			if spec["affinity"] != nil {
				t.Errorf("%s: %v", name, spec["affinity"])
			}
		}
		if diff := cmp.Diff(selects, spec["nodeSelector"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, path := range [][]string{{"spec", "selector", "matchLabels"}, {"spec", "template", "metadata", "labels"}} {
			if got := at[object](objects["DaemonSet/"+name], path...)["ebb/profile"]; got != profile {
				t.Errorf("%s: %v: %v", name, path, got)
			}
		}
	}
	others := object{"key": "ebb/profile", "operator": "NotIn", "values": []any{"canary", "ci"}}
	terms := func(objects map[string]object) any {
		return at[[]any](objects["DaemonSet/ebb-agent"], "spec", "template", "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	}
	if diff := cmp.Diff([]any{object{"matchExpressions": []any{others}}}, terms(objects)); diff != "" {
		t.Errorf("agents without a profile (-want +got):\n%s", diff)
	}
	required := "agent.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
	own := object{"key": "size", "operator": "Exists"}
	got := terms(render(t, "agent.profiles.canary.mode=enforce", "agent.profiles.ci.mode=observe", required+"[0].matchExpressions[0].key=size", required+"[0].matchExpressions[0].operator=Exists",
		required+"[1].matchFields[0].key=metadata.name"))
	if diff := cmp.Diff([]any{object{"matchExpressions": []any{own, others}}, object{"matchExpressions": []any{others}, "matchFields": []any{object{"key": "metadata.name"}}}}, got); diff != "" {
		t.Errorf("with affinity of one's own (-want +got):\n%s", diff)
	}
	// Whoever has no profiles sees nothing of them.
	for key, o := range plain {
		if diff := cmp.Diff(len(objects)-4, len(plain)); diff != "" {
			t.Fatalf("objects: %s", diff)
		}
		if key == "DaemonSet/ebb-agent" && at[object](o, "spec", "template", "spec")["affinity"] != nil {
			t.Errorf("%v", o)
		}
	}
}

// TestRightsOfTheTest: its account may reach agents as the Role for people does, and read the controller's
// Lease; the Pod has no privilege.
func TestRightsOfTheTest(t *testing.T) {
	t.Parallel()
	objects := render(t)
	rules := convert[struct{ Rules []rule }](t, objects["Role/ebb-test"]).Rules
	want := []rule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"create", "get"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"list"}},
	}
	if diff := cmp.Diff(want, rules); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, key := range []string{"ServiceAccount", "Role", "RoleBinding"} {
		// What it may do ends with it, however it ends.
		if policy := at[string](objects[key+"/ebb-test"], "metadata", "annotations", "helm.sh/hook-delete-policy"); policy != "before-hook-creation,hook-succeeded,hook-failed" {
			t.Errorf("%s: %q", key, policy)
		}
	}
	pod := convert[podSpec](t, objects["Pod/ebb-test"]["spec"])
	c := pod.Containers[0].SecurityContext
	if *c.Privileged || *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem || len(c.Capabilities.Add) > 0 || !*pod.SecurityContext.RunAsNonRoot || len(mountsOf(pod)) > 0 {
		t.Errorf("%+v", pod)
	}
	without := render(t, "rbac.create=false", "uninstall.check.enabled=false", "uninstall.unload.enabled=false")
	if without["Pod/ebb-test"] != nil {
		t.Error("without rights there is a test")
	}
}
