package cgroup

import (
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

var (
	web   = strings.Repeat("ab01", 16)
	other = strings.Repeat("cd23", 16)
)

var listed = NewContainers([]inventory.Container{
	{Namespace: "k8s.io", ID: web},
	{Namespace: "k8s.io", ID: other},
	{Namespace: "default", ID: "t1"},
	{Namespace: "default", ID: "kubepods"},
	{Namespace: "build", ID: "my-job"},
	{Namespace: "moby", ID: web},
})

func TestOwner(t *testing.T) {
	for path, want := range map[string]string{
		"/kubepods/burstable/pod7f/" + web:                                      web,
		"/kubepods.slice/kubepods-pod7f.slice/cri-containerd-" + web + ".scope": web,
		"/kubepods.slice/crio-" + other + ".scope":                              other,
		"/k8s.io/" + web + "/init.scope":                                        web,
		"/k8s.io/" + web + "/system.slice/cron.service":                         web,
		"/outer/node-1/k8s.io/" + web:                                           web,
		"/default/t1":                                                           "t1",
		"/default/t1/sub/sub":                                                   "t1",
		"/system.slice/nerdctl-my-job.scope":                                    "my-job",
		"/build/my-job":                                                         "my-job",
		"//default//t1/":                                                        "t1",
		"/kubepods/pod7f/" + web + "/k8s.io/" + other:                           web, // a container cannot name itself after another
		"/default/t1/" + web:                                                    "t1",
		"/kubepods/pod7f/" + strings.Repeat("9", 64):                            "", // not listed
		"/t1":                              "", // not where containerd puts it
		"/other/t1":                        "",
		"/kubepods/besteffort":             "", // though a container has that name
		"/system.slice/containerd.service": "",
		"/":                                "",
		"":                                 "",
		"/x-.scope":                        "",
		"/.scope":                          "",
		"/" + strings.Repeat("a/", 5000) + "default/t1":                                        "", // deeper than anybody looks
		"/" + strings.Repeat("-", 250) + ".scope":                                              "",
		"/default/\xff\x00\n\"":                                                                "",
		"/kubepods/" + strings.ToUpper(web):                                                    "",
		"/user.slice/user-0.slice/session-1.scope":                                             "",
		"/kubepods.slice/kubepods-burstable-pod7f.slice/cri-containerd-" + web[:63] + ".scope": "",
	} {
		owner, ok := listed.Owner(path)
		if owner.ID != want || ok != (want != "") {
			t.Errorf("Owner(%.80q) = %.20q, %v; want %.20q", path, owner.ID, ok, want)
		}
	}
}

// The owner of a path is the owner of every path below it.
func FuzzOwner(f *testing.F) {
	f.Add("/k8s.io/"+web, "sub")
	f.Add("/default/t1", web)
	f.Add("/", "x")
	f.Fuzz(func(t *testing.T, path, sub string) {
		owner, ok := listed.Owner(path)
		if !ok {
			return
		}
		if below, ok := listed.Owner(path + "/" + sub); !ok || below != owner {
			t.Errorf("%q is %v's, but %q below it is %v's", path, owner, sub, below)
		}
	})
}
