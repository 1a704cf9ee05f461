package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/policy/csrs"
	"github.com/ebb-agent/ebb/policy/jobs"
	"github.com/ebb-agent/ebb/policy/leases"
	"github.com/ebb-agent/ebb/policy/pods"
)

// TestCollectors: what is written comes to the rules, and a bare off is no boolean.
func TestCollectors(t *testing.T) {
	c, err := Parse([]byte(`
collectors:
  pods: {mode: off, keep: -1, namespaces: ["a*"], failed: {perOwner: 3, after: 6h}}
  jobs: {mode: enforce, defaults: [{namespaces: ["ci-*"], after: 24h}]}
  csrs: {mode: observe, signers: [{name: "example.com/*", pending: 240h}]}
  leases: {mode: "off", elections: [{names: ["my-*"], after: 48h}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[Mode]Mode{c.Collectors.Mode(pods.Name): Off, c.Collectors.Mode(jobs.Name): Enforce,
		c.Collectors.Mode(csrs.Name): Observe, c.Collectors.Mode(leases.Name): Off, c.Collectors.Mode("others"): Off} {
		if name != want {
			t.Errorf("%s instead of %s", name, want)
		}
	}
	for _, x := range []struct{ got, want any }{
		{c.Collectors.Pods.Policy(), pods.Config{Namespaces: []string{"a*"}, Keep: -1, Failed: pods.Limits{PerOwner: 3, After: 6 * time.Hour}, Quarantine: 40 * time.Second, MostShare: 0.3}},
		{c.Collectors.Jobs.Policy(), jobs.Config{Namespaces: []string{}, Defaults: []jobs.Default{{Namespaces: []string{"ci-*"}, After: 24 * time.Hour}}}},
		{c.Collectors.CSRs.Policy(), csrs.Config{Patience: csrs.Patience{Pending: 24 * time.Hour, Unissued: 24 * time.Hour, Issued: time.Hour, Refused: time.Hour},
			Signers: []csrs.Signer{{Name: "example.com/*", Patience: csrs.Patience{Pending: 240 * time.Hour}}}, PodRequests: 15 * time.Minute}},
		{c.Collectors.Leases.Policy(c.LeaderElection), leases.Config{Quarantine: time.Hour, Own: []string{"ebb-system/ebb-controller"},
			Elections: []leases.Election{{Names: []string{"my-*"}, After: 48 * time.Hour}}}},
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
  pods: {namespaces: ["a[", ""], mode: on, keep: 0, mostShare: 2, quarantine: 0s, failed: {perOwner: -1}, succeeded: {after: -1h}}
  jobs: {mode: "", defaults: [{after: 24h}, {namespaces: ["a"], after: 0s, until: 3}, 7]}
  csrs: {pending: 1s, signers: {}}
  leases: {elections: [{after: 1s}]}
  nodes: {}
`))
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, want := range []string{"collectors.pods.namespaces[0]: ", "collectors.pods.namespaces[1]: ", "collectors.pods.mode: ", "collectors.pods.keep: ", "collectors.pods.mostShare: ", "collectors.pods.quarantine: ",
		"collectors.pods.failed.perOwner: ", "collectors.pods.succeeded.after: ", "collectors.jobs.mode: ", "collectors.jobs.defaults[0].namespaces: ",
		"collectors.jobs.defaults[1].after: ", "collectors.jobs.defaults[1].until: unknown field", "collectors.jobs.defaults[2]: want a mapping",
		"collectors.csrs.pending: ", "collectors.csrs.signers: want a list of mappings", "collectors.leases.elections[0].names: ",
		"collectors.leases.elections[0].after: ", "collectors.nodes: unknown field"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing is said of %q", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}
