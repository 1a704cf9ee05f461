package kube

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// store is what a watch has reported so far. Only the goroutine of Run writes pods.
type store struct {
	node string

	mu   sync.Mutex
	pods map[podName]Pod
	err  error // why pods cannot be trusted; nil while they can
	// doubts counts how often a reason not to trust them was reported.
	doubts int

	heard time.Time // when the API server last sent a list, an event or a bookmark

	// waits reports whether the pods are unknown because their list was not requested yet. news
	// is closed when that ends.
	waits bool
	news  chan struct{}
}

// wait notes that the list waits for this node's turn.
func (s *store) wait(reason error) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.waits {
		s.waits, s.news = true, make(chan struct{})
	}
	return s.doubt(reason)
}

// awaited returns a channel that is closed when the wait for the list is over; nil if no list
// waits.
func (s *store) awaited() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.waits {
		return nil
	}
	return s.news
}

// answered ends the wait for the list. The caller holds the lock.
func (s *store) answered() {
	if s.waits {
		s.waits = false
		close(s.news)
	}
}

// podName identifies a pod in the API. Only one pod has a name at a time. So a new pod of a known
// name replaces the old one, even without an event about the old one's deletion.
type podName struct{ namespace, name string }

// replace stores a whole list, and trusts it from now on.
func (s *store) replace(pods map[podName]Pod) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = s.err != nil || len(pods) != len(s.pods)
	for name, p := range pods {
		changed = changed || !p.equal(s.pods[name])
	}
	s.pods, s.err, s.heard = pods, nil, time.Now()
	s.answered()
	return changed
}

// apply applies an event, and reports whether readers can see a difference.
func (s *store) apply(e event) (changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
	if e.verb == bookmark {
		return false, nil
	}
	name := podName{e.item.Namespace, e.item.Name}
	old, known := s.pods[name]
	if e.verb == remove || e.item.node != s.node {
		delete(s.pods, name)
		return known, nil
	}
	if !known && len(s.pods) >= maxPods {
		return false, fault.Nonsense("more pods than is plausible")
	}
	s.pods[name] = e.item.Pod
	return !known || !old.equal(e.item.Pod), nil
}

// fail marks the pods as untrusted until the next replace or trust. A new reason counts as a
// change, because users see it.
func (s *store) fail(err error) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered()
	return s.doubt(err)
}

func (s *store) doubt(err error) (changed bool) {
	changed = s.err == nil || s.err.Error() != err.Error()
	s.err = err
	s.doubts++
	return changed
}

// doubted reports whether the pods are trusted, and returns the number of the latest doubt for
// trust.
func (s *store) doubted() (doubt int, trusted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doubts, s.err == nil
}

// trust ends a doubt, unless another one has come since.
func (s *store) trust(doubt int) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil || s.doubts != doubt {
		return false
	}
	s.err = nil
	return true
}

// reading returns a copy of all pods, in order.
func (s *store) reading() (Pods, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return Pods{}, s.err
	}
	list := make([]Pod, 0, len(s.pods))
	for _, p := range s.pods {
		list = append(list, p)
	}
	sortPods(list)
	return Pods{List: list, Heard: s.heard}, nil
}

func sortPods(list []Pod) {
	slices.SortFunc(list, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}
