package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/ebb-agent/ebb/agent/cluster/journal"
	"github.com/ebb-agent/ebb/agent/cluster/journal/journaltest"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/dice"
	"github.com/ebb-agent/ebb/tools/peers"
)

func init() {
	job := kinds["pod"]
	job.apiVersion, job.kind, job.resource = "batch/v1", "Job", "jobs"
	job.spec = object{"template": object{"spec": object{"restartPolicy": "Never", "containers": podSpec["containers"]}}}
	kinds["job"] = job
}

// A Job that is deleted without a policy is orphaned. That costs no list, however many
// types there are.
func TestOrphanedJobs(t *testing.T) {
	const types, jobs = 100, 20
	b := newFixture(t, peers.Config{Audit: true})
	b.defineMany(t, types)
	r := b.start(t, b.kubeconfig, nil)
	s := b.scenario(t)
	for i := range jobs {
		s.make(fmt.Sprintf("job/j-%d", i), fmt.Sprintf("pod/p-%d < !job/j-%d", i, i))
	}
	from, err := b.ReadAudit(0, func(peers.AuditEvent) {})
	if err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	for i := range jobs {
		job := fmt.Sprintf("job/j-%d", i)
		begun := time.Now()
		s.remove(job, nil)
		b.AwaitGone(t, s.path(job))
		took = append(took, time.Since(begun))
		// The Jobs of a real cluster do not end all at once.
		time.Sleep(max(0, 500*time.Millisecond-time.Since(begun)))
	}
	s.awaitLeft("pod", jobs, 0)
	lists := map[string]int{}
	sum := 0
	if _, err := b.ReadAudit(from, func(e peers.AuditEvent) {
		if strings.HasSuffix(e.User.Username, ":ebb-controller") && (e.Verb == "list" || strings.Contains(e.RequestURI, "sendInitialEvents=true")) {
			lists[e.ObjectRef.Resource]++
			sum++
		}
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(took)
	t.Logf("%d lists for %d Jobs beside %d definitions; a Job was gone after %v (median), %v at most", sum, jobs, types, took[jobs/2], took[jobs-1])
	if sum > 5 {
		t.Errorf("%d lists: %v", sum, lists)
	}
	r.stop()
}

// defineMany makes definitions of n types.
func (b *fixture) defineMany(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		kind := fmt.Sprintf("Many%d", i)
		plural := strings.ToLower(kind) + "s"
		b.Must(t, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", object{
			"metadata": object{"name": plural + ".many.example.com"},
			"spec": object{"group": "many.example.com", "scope": "Namespaced", "names": object{"kind": kind, "plural": plural},
				"versions": []any{object{"name": "v1", "served": true, "storage": true, "schema": object{"openAPIV3Schema": object{"type": "object"}}}}}})
	}
}

// race makes dependents of an owner while it is deleted with orphan, and after. It
// returns how many were made.
func (s *scenario) race(owner string, most int) (made int) {
	s.make(owner)
	var wg sync.WaitGroup
	counts := make([]int, 4)
	for w := range counts {
		wg.Go(func() {
			for i := range most {
				s.create(s.t.Context(), fmt.Sprintf("%s/%s-%d-%d < !%s", []string{"secret", "cm"}[w%2], strings.ReplaceAll(owner, "/", "-"), w, i, owner))
				counts[w]++
			}
		})
	}
	time.Sleep(dice.Below(s.chance, 20*time.Millisecond))
	s.remove(owner, orphan)
	wg.Wait()
	for _, n := range counts {
		made += n
	}
	return made
}

// kubernetes issue 131307: dependents that come while their owner is orphaned, or after,
// lose their reference and live; also those of a type that was defined after the owner
// had gone.
func TestLateDependents(t *testing.T) {
	b := newFixture(t, peers.Config{})
	r := b.start(t, b.kubeconfig, nil)
	s := b.scenario(t)
	made := 0
	for round := range 15 {
		made += s.race(fmt.Sprintf("cm/o-%d", round), 5)
	}
	s.awaitOrphaned(made)
	s.make("cm/o")
	s.remove("cm/o", orphan)
	b.AwaitGone(t, s.path("cm/o"))
	b.define(t, "v1")
	s.make("widget/w < !cm/o")
	s.want("widget/w=0")
	r.stop()
}

// awaitOrphaned waits until so many secrets and config maps are there, and none has an owner.
func (s *scenario) awaitOrphaned(made int) {
	s.t.Helper()
	await.Holds(s.t, patience, "all to be without an owner", func(ctx context.Context) error {
		secrets, owned, err := s.left(ctx, "secret")
		if err != nil {
			return err
		}
		maps, more, err := s.left(ctx, "cm")
		if err == nil && (secrets+maps != made || owned+more > 0) {
			err = fmt.Errorf("%d secrets and %d config maps of %d, %d with an owner", secrets, maps, made, owned+more)
		}
		return err
	})
}

// The same, with a controller that is killed again and again.
func testKilledOrphaning(t *testing.T, b *fixture, binary string) {
	s := b.scenario(t)
	made := 0
	for round := range 12 {
		p := b.launch(t, binary, alone)
		p.awaitReady("ok")
		var wg sync.WaitGroup
		wait := dice.Below(s.chance, 250*time.Millisecond)
		wg.Go(func() {
			time.Sleep(wait)
			p.kill()
		})
		made += s.race(fmt.Sprintf("cm/o-%d", round), 5)
		wg.Wait()
	}
	p := b.launch(t, binary, alone)
	s.awaitOrphaned(made)
	p.kill()
}

// The journal in ConfigMaps does what the one in memory does in the other tests.
func TestJournal(t *testing.T) {
	b := newFixture(t, peers.Config{})
	// The suite changes sealed segments, too, for which the controller has no right.
	admin, err := b.Kubeconfig("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	rc, err := clientcmd.BuildConfigFromFlags("", admin)
	if err != nil {
		t.Fatal(err)
	}
	const name = "ebb-controller-orphans"
	store, err := journal.ConfigMaps(rc, "ebb-system", name)
	if err != nil {
		t.Fatal(err)
	}
	journaltest.Conformance(t, store, name)
	nowhere, err := journal.ConfigMaps(rc, "no-such-namespace", name)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := journal.New(nowhere, name).TakeOver(t.Context(), nil); !found.Absent || err == nil {
		t.Errorf("without a namespace: %+v, %v", found, err)
	}
}
