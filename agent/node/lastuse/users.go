package lastuse

import "github.com/ebb-agent/ebb/runtime/inventory"

// usedBy records, for people, which container used each image last, by a list of the containers. That
// is one that has not ended, or else the one that ended last.
func (s *images) usedBy(list []inventory.Container) {
	latest := make(map[string]inventory.Container)
	for _, c := range list {
		if was, ok := latest[c.ImageID]; !ok || usedLater(c, was) {
			latest[c.ImageID] = c
		}
	}
	for id, c := range latest {
		if r, ok := s.records[id]; ok {
			r.UsedBy = user(c)
			s.records[id] = r
		}
	}
}

// usedLater is a total order of containers, so that the same list always gives the same answer.
func usedLater(c, than inventory.Container) bool {
	switch {
	case c.Ended.IsZero() != than.Ended.IsZero():
		return c.Ended.IsZero()
	case !c.Ended.Equal(than.Ended):
		return c.Ended.After(than.Ended)
	}
	return c.Namespace+"/"+c.ID > than.Namespace+"/"+than.ID
}

// user returns the name by which people know a container.
func user(c inventory.Container) string {
	if c.Pod.Name == "" {
		return "container " + c.Namespace + "/" + c.ID
	}
	return "pod " + c.Pod.Namespace + "/" + c.Pod.Name
}
