package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/policy/csrs"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/jobs"
	"github.com/ebb-agent/ebb/policy/leases"
	"github.com/ebb-agent/ebb/policy/nodes"
	"github.com/ebb-agent/ebb/policy/pods"
	"github.com/ebb-agent/ebb/policy/volumes"
)

// TestCollectors: what is written comes to the rules, and a bare off is no boolean.
func TestCollectors(t *testing.T) {
	c, err := Parse([]byte(`
collectors:
  pods: {mode: off, keep: -1, namespaces: ["a*"], failed: {perOwner: 3, after: 6h}}
  jobs: {mode: enforce, defaults: [{namespaces: ["ci-*"], after: 24h}, {namespaceSelector: "team in (build, ci),!prod", after: 1h}]}
  csrs: {mode: observe, signers: [{name: "example.com/*", pending: 240h}]}
  volumes: {mode: observe, releasedFor: 48h, csiNodes: true, drivers: [{name: a.example.com, socket: /run/csi/a.sock}]}
  leases: {mode: "off", elections: [{names: ["my-*"], after: 48h}]}
  nodes: {mode: observe, notReadyFor: 24h, label: example.com/gone, taint: broken=disk, maxShare: 0.2, inventory: {command: [/bin/list, -a], maxAge: 1h}}
exclude: {namespaces: [kube-system]}
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[Mode]Mode{c.Collectors.Mode(pods.Name): Off, c.Collectors.Mode(jobs.Name): Enforce,
		c.Collectors.Mode(csrs.Name): Observe, c.Collectors.Mode(leases.Name): Off, c.Collectors.Mode(nodes.Name): Observe, c.Collectors.Mode("others"): Off} {
		if name != want {
			t.Errorf("%s instead of %s", name, want)
		}
	}
	for _, x := range []struct{ got, want any }{
		{c.Collectors.Pods.Policy(), pods.Config{Namespaces: []string{"a*"}, Keep: -1, Failed: pods.Limits{PerOwner: 3, After: 6 * time.Hour}, Quarantine: 40 * time.Second, MaxShare: 0.34}},
		{c.VolumePolicy().MaxShare, 0.34},
		{c.PodPolicy().Excluded, gc.Patterns{"kube-system"}},
		{c.Collectors.Jobs.Policy().Defaults[0], jobs.Default{Namespaces: []string{"ci-*"}, After: 24 * time.Hour}},
		{c.Collectors.Jobs.Policy().Defaults[1].Selects(map[string]string{"team": "ci"}), true},
		{c.Collectors.Jobs.Policy().Defaults[1].Selects(map[string]string{"team": "ci", "prod": ""}), false},
		{c.Collectors.Jobs.Policy().Defaults[1].Selects(nil), false},
		{c.Collectors.CSRs.Policy(), csrs.Config{Patience: csrs.Patience{Pending: 24 * time.Hour, Unissued: 24 * time.Hour, Issued: time.Hour, Refused: time.Hour},
			Signers: []csrs.Signer{{Name: "example.com/*", Patience: csrs.Patience{Pending: 240 * time.Hour}}}, PodRequests: 15 * time.Minute}},
		{c.Collectors.Nodes.Policy(), nodes.Config{NotReadyFor: 24 * time.Hour, Label: "example.com/gone", Taint: "broken=disk", Inventory: true,
			MaxAge: time.Hour, MinShare: 0.8, MaxShare: 0.2}},
		{Default().Collectors.Nodes.Policy(), nodes.Config{NotReadyFor: 72 * time.Hour, MaxAge: 30 * time.Minute, MinShare: 0.8, MaxShare: 0.1}},
		{c.Collectors.Leases.Policy(c.LeaderElection), leases.Config{Quarantine: time.Hour, Own: []string{"ebb-system/ebb-controller"},
			Elections: []leases.Election{{Names: []string{"my-*"}, After: 48 * time.Hour}}}},
		{c.Collectors.Volumes.Policy(), volumes.Config{ReleasedFor: 48 * time.Hour, Serve: []string{"a.example.com"}, CSINodes: true, Quarantine: time.Hour}},
		{c.Collectors.Volumes.Socket("a.example.com") + c.Collectors.Volumes.Socket("b.example.com"), "/run/csi/a.sock"},
		{c.Collectors.Mode(volumes.Name), Observe},
	} {
		if diff := cmp.Diff(x.want, x.got); diff != "" {
			t.Error(diff)
		}
	}
}

// TestCollectorsProblems: each is named by its path, all at once.
func TestCollectorsProblems(t *testing.T) {
	_, err := Parse([]byte(`
collectors:
  pods: {namespaces: ["a[", ""], mode: on, keep: 0, maxShare: 2, quarantine: 0s, failed: {perOwner: -1}, succeeded: {after: -1h}}
  jobs: {mode: "", defaults: [{after: 24h}, {namespaces: ["a"], after: 0s, until: 3}, 7, {namespaceSelector: "a in", after: 1h}]}
  csrs: {pending: 1s, signers: {}}
  leases: {elections: [{after: 1s}]}
  volumes: {mode: on, releasedFor: 23h59m, quarantine: 0s, drivers: [{name: A, socket: a.sock}, {name: a, socket: /a}, {name: a, socket: /a/../b}, {name: b}, {nam: b}]}
  others: {}
  nodes: {notReadyFor: 1m, label: "a b", taint: broken, maxShare: 0, inventory: {timeout: 2m, maxAge: 1s, minShare: 1.1, caFile: ca.pem, until: 3}}
`))
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, want := range []string{"collectors.pods.namespaces[0]: ", "collectors.pods.namespaces[1]: ", "collectors.pods.mode: ", "collectors.pods.keep: ", "collectors.pods.maxShare: ", "collectors.pods.quarantine: ",
		"collectors.pods.failed.perOwner: ", "collectors.pods.succeeded.after: ", "collectors.jobs.mode: ", "collectors.jobs.defaults[0].namespaces: ",
		"collectors.jobs.defaults[1].after: ", "collectors.jobs.defaults[1].until: unknown field", "collectors.jobs.defaults[2]: want a mapping", "collectors.jobs.defaults[3].namespaceSelector: ",
		"collectors.csrs.pending: ", "collectors.csrs.signers: want a list", "collectors.leases.elections[0].names: ",
		"collectors.volumes.mode: ", "collectors.volumes.releasedFor: ", "collectors.volumes.quarantine: ", "collectors.volumes.drivers[0].name: ", "collectors.volumes.drivers[0].socket: ",
		`collectors.volumes.drivers[2].name: "a" is there twice`, "collectors.volumes.drivers[2].socket: ", "collectors.volumes.drivers[3].socket: ", "collectors.volumes.drivers[4].nam: unknown field",
		"collectors.leases.elections[0].after: ", "collectors.others: unknown field", "collectors.nodes.notReadyFor: ", "collectors.nodes.label: ", "collectors.nodes.taint: a Node with it would never",
		"collectors.nodes.maxShare: ", "collectors.nodes.inventory.timeout: ", "collectors.nodes.inventory.maxAge: ", "collectors.nodes.inventory.minShare: ",
		"collectors.nodes.inventory.caFile: ", "collectors.nodes.inventory.until: unknown field"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no problem is reported for %q", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}

// TestSigners: their times are none, or at least a minute, as for all requests.
func TestSigners(t *testing.T) {
	for text, want := range map[string]string{"0s": "", "1m": "", "59s": "collectors.csrs.signers[0].refused: ", "-1m": "collectors.csrs.signers[0].refused: "} {
		_, err := Parse([]byte("collectors: {csrs: {signers: [{name: a/b, refused: " + text + "}]}}"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestInventory: where it may be.
func TestInventory(t *testing.T) {
	for text, want := range map[string]string{
		`file: /etc/inventory.json`:                                "",
		`url: "http://inventory.example.com:8080/nodes?cluster=a"`: "",
		`{url: "https://[::1]/", caFile: /ca, tokenFile: /token}`:  "",
		`command: [/usr/bin/list, "a b"]`:                          "",
		`file: inventory.json`:                                     ".file: ",
		`{file: /a, url: "https://b/"}`:                            "collectors.nodes.inventory: want one",
		`{file: /a, command: [/b]}`:                                "collectors.nodes.inventory: want one",
		`command: [list]`:                                          ".command[0]: ",
		`command: "list -a"`:                                       ".command: want a list",
		`url: inventory.example.com`:                               ".url: ",
		`url: "ftp://inventory.example.com"`:                       ".url: ",
		`url: "https:///nodes"`:                                    ".url: ",
		`url: "https://ebb:s3cret@inventory.example.com"`:          ".url: ",
		`url: "https://%"`:                                         ".url: ",
		`{url: "http://inventory.example.com", tokenFile: /token}`: ".tokenFile: ",
		`{url: "https://inventory.example.com", tokenFile: token}`: ".tokenFile: ",
		`{file: /a, caFile: /ca}`:                                  ".caFile: ",
	} {
		if !strings.HasPrefix(text, "{") {
			text = "{" + text + "}"
		}
		_, err := Parse([]byte("collectors: {nodes: {inventory: " + text + "}}"))
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
