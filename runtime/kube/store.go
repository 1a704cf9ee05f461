package kube

import (
	"cmp"
	"slices"
	"sync"
)

// store is what a watch has told so far. Only the goroutine of Run writes.
type store struct {
	node string

	mu   sync.Mutex
	pods map[podName]Pod
	err  error // why pods cannot be trusted; nil while they can
}

// podName is what the API knows a pod by. There is one of each at a time, so
// that a pod that comes under a known name replaces the other, even if nobody
// said that that one went.
type podName struct{ namespace, name string }

// replace takes a whole list over, and trusts it from now on.
func (s *store) replace(pods map[podName]Pod) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = s.err != nil || len(pods) != len(s.pods)
	for name, p := range pods {
		changed = changed || !p.equal(s.pods[name])
	}
	s.pods, s.err = pods, nil
	return changed
}

// apply follows an event, and tells whether anybody could see a difference.
func (s *store) apply(e event) (changed bool, err error) {
	if e.verb == bookmark {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := podName{e.item.Namespace, e.item.Name}
	old, known := s.pods[name]
	if e.verb == remove || e.item.node != s.node {
		delete(s.pods, name)
		return known, nil
	}
	if !known && len(s.pods) >= maxPods {
		return false, nonsense("more pods than is plausible")
	}
	s.pods[name] = e.item.Pod
	return !known || !old.equal(e.item.Pod), nil
}

// fail says that the pods are not to be trusted until the next replace. Another
// reason is a change, too: it is what people are told.
func (s *store) fail(err error) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = s.err == nil || s.err.Error() != err.Error()
	s.err = err
	return changed
}

// reading returns a copy of all pods, in order.
func (s *store) reading() ([]Pod, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	list := make([]Pod, 0, len(s.pods))
	for _, p := range s.pods {
		list = append(list, p)
	}
	sortPods(list)
	return list, nil
}

func sortPods(list []Pod) {
	slices.SortFunc(list, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}
