package container

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// kubelet removes what the kubelet would, from the rules of its collector
// (Kubernetes 1.36, pkg/kubelet/kuberuntime/kuberuntime_gc.go), on a node of
// its own: it looks at the node, takes things off it and looks again, where
// Decide makes one plan. It shares nothing with Decide but the types.
type kubelet struct {
	policy     Policy
	now        time.Time
	containers map[string]Container
	sandboxes  map[string]Sandbox
	pods       map[string]Pod // those its pod workers know
	synced     bool           // all sources are ready, and the workers have seen them
	evicting   bool           // called by the eviction manager
}

func newKubelet(s Snapshot, now time.Time) *kubelet {
	k := &kubelet{
		policy: s.Policy, now: now, synced: s.PodsKnown, evicting: s.ReclaimEnded,
		containers: make(map[string]Container), sandboxes: make(map[string]Sandbox), pods: make(map[string]Pod),
	}
	for _, c := range s.Containers {
		k.containers[c.ID] = c
	}
	for _, sb := range s.Sandboxes {
		k.sandboxes[sb.ID] = sb
	}
	if s.PodsKnown {
		for _, p := range s.Pods {
			k.pods[p.UID] = p
		}
	}
	return k
}

// contentRemoved: the pod is not known, was evicted, or is deleted and has
// terminated.
func (k *kubelet) contentRemoved(uid string) bool {
	p, known := k.pods[uid]
	if !known {
		return k.synced
	}
	return p.Evicted || p.Deleting && p.Ended
}

// runtimeRemoved: the pod is not known, or has terminated.
func (k *kubelet) runtimeRemoved(uid string) bool {
	p, known := k.pods[uid]
	if !known {
		return k.synced
	}
	return p.Ended
}

func (k *kubelet) hasNoRights(uid string) bool {
	return k.contentRemoved(uid) || k.evicting && k.runtimeRemoved(uid)
}

// collect runs once and returns what it removed.
func (k *kubelet) collect() (gone map[string]bool) {
	before := slices.Concat(slices.Collect(maps.Keys(k.containers)), slices.Collect(maps.Keys(k.sandboxes)))
	k.evictContainers()
	k.evictSandboxes()
	gone = make(map[string]bool)
	for _, id := range before {
		_, container := k.containers[id]
		_, sandbox := k.sandboxes[id]
		if !container && !sandbox {
			gone[id] = true
		}
	}
	return gone
}

func (k *kubelet) evictContainers() {
	type key struct{ uid, name string }
	units := make(map[key][]Container)
	for _, c := range k.containers {
		if c.State != StateRunning && !c.Created.After(k.now.Add(-k.policy.MinAge)) {
			units[key{c.Pod.UID, c.Name}] = append(units[key{c.Pod.UID, c.Name}], c)
		}
	}
	total := func() (n int) {
		for _, u := range units {
			n += len(u)
		}
		return n
	}
	leave := func(limit int) {
		for u, list := range units {
			if len(list) > limit {
				units[u] = k.removeOldest(list, len(list)-limit)
			}
		}
	}
	if k.synced {
		for u, list := range units {
			if k.hasNoRights(u.uid) {
				k.removeOldest(list, len(list))
				delete(units, u)
			}
		}
	}
	if k.policy.MaxPerPodContainer >= 0 {
		leave(k.policy.MaxPerPodContainer)
	}
	if limit := k.policy.MaxContainers; limit >= 0 && total() > limit {
		share := limit / len(units)
		if share == 0 {
			share = 1
		}
		leave(share)
		if total() > limit {
			var all []Container
			for _, u := range units {
				all = append(all, u...)
			}
			k.removeOldest(all, len(all)-limit)
		}
	}
}

// removeOldest returns the newest, which stay. Which of two of one age is the
// older one the kubelet leaves to chance; here the restarts decide, then the ID.
func (k *kubelet) removeOldest(list []Container, n int) []Container {
	older := func(a, b Container) bool {
		switch {
		case !a.Created.Equal(b.Created):
			return a.Created.Before(b.Created)
		case a.Attempt != b.Attempt:
			return a.Attempt < b.Attempt
		}
		return a.ID < b.ID
	}
	list = slices.Clone(list)
	for range n {
		oldest := 0
		for i := range list {
			if older(list[i], list[oldest]) {
				oldest = i
			}
		}
		delete(k.containers, list[oldest].ID)
		list = slices.Delete(list, oldest, oldest+1)
	}
	return list
}

func (k *kubelet) evictSandboxes() {
	active := func(sb Sandbox) bool {
		for _, c := range k.containers {
			if c.SandboxID == sb.ID {
				return true
			}
		}
		return !sb.NotReady
	}
	newer := func(a, b Sandbox) bool {
		switch {
		case !a.Created.Equal(b.Created):
			return a.Created.After(b.Created)
		case a.Attempt != b.Attempt:
			return a.Attempt > b.Attempt
		}
		return a.ID > b.ID
	}
	var evictable []string
	for _, sb := range k.sandboxes {
		newest := true
		for _, other := range k.sandboxes {
			newest = newest && (other.Pod.UID != sb.Pod.UID || !newer(other, sb))
		}
		if !active(sb) && (k.hasNoRights(sb.Pod.UID) || !newest) {
			evictable = append(evictable, sb.ID)
		}
	}
	for _, id := range evictable {
		delete(k.sandboxes, id)
	}
}

func compareWithKubelet(s Snapshot) string {
	want, got := newKubelet(s, noon).collect(), removed(Decide(s, noon))
	if maps.Equal(want, got) { // which it always should be; cmp takes its time
		return ""
	}
	return cmp.Diff(want, got)
}

func TestRemovesWhatTheKubeletRemoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kubeletWorld(rapidDice{t})
		if diff := compareWithKubelet(s); diff != "" {
			t.Fatalf("-kubelet +Decide:\n%s", diff)
		}
	})
}

// The same, so often that rare coincidences occur. The number of a world
// that fails is reported.
func TestHundredThousandWorlds(t *testing.T) {
	const worlds = 100_000
	reasons := make(map[Reason]int)
	for seed := range uint64(worlds) {
		s := kubeletWorld(seeded(seed))
		if diff := compareWithKubelet(s); diff != "" {
			t.Fatalf("world %d: -kubelet +Decide:\n%s\n%+v", seed, diff, s)
		}
		if seed%100 == 0 {
			for _, step := range Decide(s, noon).Steps {
				reasons[step.Reason]++
			}
		}
	}
	// Worlds in which nothing happens would prove nothing.
	for _, reason := range []Reason{
		RemovedPodGone, RemovedPodEvicted, RemovedPodDeleted, RemovedPodEnded,
		RemovedPerPod, RemovedTotal, RemovedSuperseded,
	} {
		if reasons[reason] < 10 {
			t.Errorf("only %d steps for the reason %s", reasons[reason], reason)
		}
	}
}

// departure is a world in which Decide departs from the kubelet on purpose.
type departure struct {
	name    string
	change  func(*Snapshot)
	kubelet []string // what it removes
	ebb     []string
}

// world is one dead container in one dead sandbox of a pod that is gone, changed.
func (d departure) world() Snapshot {
	old := noon.Add(-time.Hour)
	s := Snapshot{
		PodsKnown: true, StaticPodsKnown: true, Policy: DefaultPolicy(),
		Sandboxes:  []Sandbox{{ID: "s", Pod: podOf("gone"), NotReady: true, Created: old}},
		Containers: []Container{{ID: "c", SandboxID: "s", Pod: podOf("gone"), Name: "app", State: StateExited, Created: old}},
	}
	d.change(&s)
	return s
}

var departures = []departure{
	{"none", func(*Snapshot) {}, []string{"c", "s"}, []string{"c", "s"}},
	{"no labels", func(s *Snapshot) { s.Containers[0].Pod, s.Sandboxes[0].Pod = PodID{}, PodID{} }, []string{"c", "s"}, nil},
	{"a container without labels in a sandbox with", func(s *Snapshot) { s.Containers[0].Pod = PodID{} }, []string{"c", "s"}, nil},
	{"being started", func(s *Snapshot) {
		s.Policy.StartGrace = 2 * time.Hour
		s.Containers[0].State = StateCreated
	}, []string{"c", "s"}, nil},
	{"a static pod, from a source that knows none", func(s *Snapshot) {
		s.StaticPodsKnown, s.Sandboxes[0].Static = false, true
	}, []string{"c", "s"}, nil},
	{"from the future, no minimum age", func(s *Snapshot) { s.Containers[0].Created = noon.Add(time.Hour) }, nil, []string{"c", "s"}},
	{"from the future, a minimum age", func(s *Snapshot) {
		s.Policy.MinAge, s.Containers[0].Created = time.Second, noon.Add(time.Hour)
	}, nil, nil},
	{"a removal that failed", func(s *Snapshot) { s.Containers[0].RetryAt = noon.Add(1) }, []string{"c", "s"}, nil},
	{"a long run, age from its end", func(s *Snapshot) {
		s.Policy.AgeFrom, s.Policy.MinAge, s.Containers[0].Finished = FromTermination, time.Minute, noon
	}, []string{"c", "s"}, nil},
}

// Where Decide departs from the kubelet on purpose, it does in this way and no
// other.
func TestDeparturesFromTheKubelet(t *testing.T) {
	for _, d := range departures {
		t.Run(d.name, func(t *testing.T) {
			s := d.world()
			if got := slices.Sorted(maps.Keys(newKubelet(s, noon).collect())); !slices.Equal(got, d.kubelet) {
				t.Errorf("the kubelet removes %v, want %v", got, d.kubelet)
			}
			if got := slices.Sorted(maps.Keys(removed(Decide(s, noon)))); !slices.Equal(got, d.ebb) {
				t.Errorf("Decide removes %v, want %v", got, d.ebb)
			}
		})
	}
}
