package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// everything has the chart make every kind of object that it knows.
var everything = []string{
	"namespace.create=true", "podMonitor.enabled=true", "prometheusRule.enabled=true", "dashboard.enabled=true",
	"networkPolicy.enabled=true", "admission.mode=warn",
}

// TestNames: names are by the release, unless they are given. Whatever they are, the labels
// stay by which the command ebb finds its pods.
func TestNames(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"": "ebb", "nameOverride=tide": "ebb-tide", "nameOverride=eb": "ebb",
		"fullnameOverride=disk": "disk", "fullnameOverride=disk,nameOverride=tide": "disk",
	} {
		objects := render(t, append(slices.Clone(everything), strings.Split(set, ",")...)...)
		for key, o := range objects {
			_, name, _ := strings.Cut(key, "/")
			if !strings.HasPrefix(name, want) && name != Namespace && name != "ebb-owner-references" {
				t.Errorf("%q: %s", set, key)
			}
			if of := at[object](o, "metadata", "labels")["app.kubernetes.io/name"]; of != nil && of != "ebb" {
				t.Errorf("%q: %s has the label %v", set, key, of)
			}
		}
		for key, more := range map[string]object{"DaemonSet/" + want + "-agent": {"ebb/profile": "default"}, "Deployment/" + want + "-controller": {}} {
			component := key[strings.LastIndexByte(key, '-')+1:]
			selector := object{"app.kubernetes.io/name": "ebb", "app.kubernetes.io/instance": Release, "app.kubernetes.io/component": component}
			maps.Copy(selector, more)
			if diff := cmp.Diff(selector, at[object](objects[key], "spec", "selector", "matchLabels")); diff != "" {
				t.Errorf("%q: %s selects (-want +got):\n%s", set, key, diff)
			}
		}
	}
}

// TestPortsWithoutWarnings: the API server warns of a port with a hostIP and no hostPort, at each kubectl
// apply and helm install.
func TestPortsWithoutWarnings(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"true", "false"} {
		type port struct {
			HostIP   string
			HostPort int
		}
		o := render(t, "agent.hostNetwork="+network, "agent.health.port=9999")["DaemonSet/ebb-agent"]
		ports := convert[[]struct{ Ports []port }](t, at[any](o, "spec", "template", "spec", "containers"))[0].Ports
		want := port{"127.0.0.1", 9999}
		if network == "false" {
			want = port{}
		}
		if diff := cmp.Diff([]port{{}, want}, ports); diff != "" {
			t.Errorf("hostNetwork %s (-want +got):\n%s", network, diff)
		}
	}
}

// TestMonitorsElsewhere: in another namespace they still select the release's pods.
func TestMonitorsElsewhere(t *testing.T) {
	t.Parallel()
	objects := render(t, "podMonitor.enabled=true,podMonitor.namespace=monitoring,prometheusRule.enabled=true,prometheusRule.namespace=monitoring")
	for _, key := range []string{"PodMonitor/ebb-agent", "PodMonitor/ebb-controller", "PrometheusRule/ebb"} {
		o := objects[key]
		if at[string](o, "metadata", "namespace") != "monitoring" {
			t.Errorf("%s is in %v", key, at[string](o, "metadata", "namespace"))
		}
		if of := at[[]any](o, "spec", "namespaceSelector", "matchNames"); strings.HasPrefix(key, "Pod") && !slices.Equal(of, []any{Namespace}) {
			t.Errorf("%s selects pods of %v", key, of)
		}
	}
}

// TestSpread: constraints that are given take the place of the chart's.
func TestSpread(t *testing.T) {
	t.Parallel()
	spread := func(set ...string) []any {
		return at[[]any](render(t, set...)["Deployment/ebb-controller"], "spec", "template", "spec", "topologySpreadConstraints")
	}
	if of := spread(); len(of) != 2 {
		t.Errorf("by default %v", of)
	}
	if of := spread("controller.topologySpreadConstraints[0].topologyKey=rack"); len(of) != 1 || of[0].(object)["topologyKey"] != "rack" {
		t.Errorf("%v", of)
	}
}

// TestCommonLabels: all objects and pods have them, and no selector.
func TestCommonLabels(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"warn", "deny"} {
		objects := render(t, append(slices.Clone(everything), "admission.mode="+mode, "commonLabels.team=disk", `commonLabels.example\.com/cost=a`)...)
		for key, o := range objects {
			want := object{"team": "disk", "example.com/cost": "a"}
			labels := []object{at[object](o, "metadata", "labels")}
			if template := at[object](o, "spec", "template"); template != nil {
				labels = append(labels, at[object](template, "metadata", "labels"))
			}
			for _, l := range labels {
				if l["team"] != want["team"] || l["example.com/cost"] != want["example.com/cost"] {
					t.Errorf("%s has the labels %v", key, l)
				}
			}
			if at[object](o, "spec", "selector", "matchLabels")["team"] != nil {
				t.Errorf("%s selects by them", key)
			}
		}
	}
}

// TestServiceAccounts: an account that somebody else makes is used everywhere, and not made.
func TestServiceAccounts(t *testing.T) {
	t.Parallel()
	for _, component := range []string{"agent", "controller"} {
		for _, create := range []string{"true", "false"} {
			objects := render(t, component+".serviceAccount.create="+create, component+".serviceAccount.name=mine")
			workload := map[string]string{"agent": "DaemonSet/ebb-agent", "controller": "Deployment/ebb-controller"}[component]
			if got := at[string](objects[workload], "spec", "template", "spec", "serviceAccountName"); got != "mine" {
				t.Errorf("%s runs as %q", workload, got)
			}
			if made := objects["ServiceAccount/mine"] != nil; made != (create == "true") || objects["ServiceAccount/ebb-"+component] != nil {
				t.Errorf("%s, create=%s: made: %v", component, create, made)
			}
			type subject struct {
				Name           string
				ServiceAccount struct{ Name string }
			}
			for _, key := range []string{"ClusterRoleBinding/ebb-" + component, "RoleBinding/ebb-" + component, "FlowSchema/ebb-controller"} {
				b := convert[struct {
					Subjects []subject
					Spec     struct {
						Rules []struct{ Subjects []subject }
					}
				}](t, objects[key])
				list := b.Subjects
				if strings.HasPrefix(key, "FlowSchema") {
					list = b.Spec.Rules[0].Subjects
				}
				want := "mine"
				if strings.HasSuffix(key, "controller") && component == "agent" {
					want = "ebb-controller"
				}
				if len(list) != 1 || list[0].Name+list[0].ServiceAccount.Name != want {
					t.Errorf("%s is of %+v, not of %s", key, list, want)
				}
			}
		}
	}
}

// TestNoRoles: with rbac.create=false there is no role and no binding.
func TestNoRoles(t *testing.T) {
	t.Parallel()
	for key := range render(t, append(slices.Clone(everything), "rbac.create=false", "uninstall.check.enabled=false", "uninstall.unload.enabled=false")...) {
		if strings.Contains(key, "Role") {
			t.Errorf("%s is made", key)
		}
	}
}

// TestExtras: what is added to containers and pods comes with what is there, not in its place.
func TestExtras(t *testing.T) {
	t.Parallel()
	for component, workload := range map[string]string{"agent": "DaemonSet/ebb-agent", "controller": "Deployment/ebb-controller"} {
		plain := containerOf(t, render(t)[workload])
		o := render(t, component+".extraArgs={--a,--b}", component+".extraEnv[0].name=X", component+".extraEnv[0].value=y",
			component+".extraVolumes[0].name=more", component+".extraVolumes[0].emptyDir.medium=Memory",
			component+".extraVolumeMounts[0].name=more", component+".extraVolumeMounts[0].mountPath=/more")[workload]
		got := containerOf(t, o)
		want := plain
		want.Args = []string{"--a", "--b"}
		want.Env = append(want.Env, named{Name: "X", Value: "y"})
		want.VolumeMounts = append(want.VolumeMounts, named{Name: "more", MountPath: "/more"})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", component, diff)
		}
		volumes := convert[[]named](t, at[any](o, "spec", "template", "spec", "volumes"))
		if volumes[len(volumes)-1].Name != "more" {
			t.Errorf("%s: %v", component, volumes)
		}
	}
}

type named struct{ Name, Value, MountPath string }

type container struct {
	Command, Args     []string
	Env, VolumeMounts []named
}

func containerOf(t *testing.T, o object) container {
	t.Helper()
	return convert[[]container](t, at[any](o, "spec", "template", "spec", "containers"))[0]
}

// TestPullSecrets: both ways to name them, for all pods.
func TestPullSecrets(t *testing.T) {
	t.Parallel()
	objects := render(t, "image.pullSecrets={a}", "imagePullSecrets[0].name=b", "imagePullSecrets[1].name=a")
	pods := 0
	for key, o := range objects {
		template := at[object](o, "spec", "template", "spec")
		if template == nil {
			continue
		}
		pods++
		if diff := cmp.Diff([]named{{Name: "a"}, {Name: "b"}}, convert[[]named](t, template["imagePullSecrets"])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
	if pods != 4 {
		t.Errorf("%d pods", pods)
	}
}

// TestUpdateStrategy: settings of rolling updates are left out where there are none.
func TestUpdateStrategy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		workload, field, set string
		want                 object
	}{
		{"DaemonSet/ebb-agent", "updateStrategy", "agent.updateStrategy.rollingUpdate.maxUnavailable=3",
			object{"type": "RollingUpdate", "rollingUpdate": object{"maxUnavailable": 3.0, "maxSurge": 0.0}}},
		{"DaemonSet/ebb-agent", "updateStrategy", "agent.updateStrategy.type=OnDelete", object{"type": "OnDelete"}},
		{"Deployment/ebb-controller", "strategy", "controller.updateStrategy.rollingUpdate.maxSurge=1",
			object{"type": "RollingUpdate", "rollingUpdate": object{"maxUnavailable": "25%", "maxSurge": 1.0}}},
		{"Deployment/ebb-controller", "strategy", "controller.updateStrategy.type=Recreate", object{"type": "Recreate"}},
	} {
		if diff := cmp.Diff(c.want, at[object](render(t, c.set)[c.workload], "spec", c.field)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.set, diff)
		}
	}
}

// TestFilesThatAreMounted: a file that the configuration names can be anywhere where it is mounted.
func TestFilesThatAreMounted(t *testing.T) {
	t.Parallel()
	for _, mount := range []string{"/ca", "/ca/", "/ca/kubelet.crt"} {
		c := agentConfig(t, render(t, "agent.config.pods.source=kubelet", "agent.config.pods.kubelet.certificateAuthority=/ca/kubelet.crt",
			"agent.extraVolumes[0].name=ca", "agent.extraVolumes[0].hostPath.path=/var/lib/kubelet/pki/kubelet.crt",
			"agent.extraVolumeMounts[0].name=ca", "agent.extraVolumeMounts[0].mountPath="+mount))
		if c.Pods.Kubelet.CertificateAuthority != "/ca/kubelet.crt" {
			t.Errorf("%s: %+v", mount, c.Pods.Kubelet)
		}
	}
}
