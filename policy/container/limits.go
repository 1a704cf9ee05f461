package container

import (
	"fmt"
	"maps"
	"slices"
)

// unit identifies the containers that MaxPerPodContainer counts together: those of one name
// in one pod, which are the restarts of one container.
type unit struct {
	podUID string
	name   string
}

func (it *dead) unit() unit { return unit{it.Pod.UID, it.Name} }

// enforceLimits chooses the containers to remove: first those of pods whose content may be
// removed, then those over the limits. The order, and the way in which two limits that cannot
// both hold are reconciled, are the kubelet's.
//
// A dead container is ripe once it is MinAge old. A younger one is neither removed nor
// counted. These passes choose among the ripe containers, oldest first in each pass:
//   - all containers of pods whose content may be removed;
//   - in each unit, those over MaxPerPodContainer;
//   - if more than MaxContainers are left: in each unit, those over its equal share of
//     MaxContainers (at least one), then the oldest of the node.
//
// The equal share can remove more than is needed. Example: MaxContainers is 5, and there are
// six containers in units of five and one. The share cuts the first unit to two, although
// removing one would do. The kubelet does the same.
func (d *decision) enforceLimits() {
	var ended []*dead
	units := make(map[unit][]*dead)
	for _, it := range d.dead {
		switch {
		case !it.ripe:
		case it.pod.ended != "":
			it.remove, it.detail = it.pod.ended, it.pod.words()
			ended = append(ended, it)
		default:
			units[it.unit()] = append(units[it.unit()], it)
		}
	}
	for _, list := range units {
		slices.SortFunc(list, compareAge)
	}
	d.choose(ended)

	if limit := d.Policy.MaxPerPodContainer; limit >= 0 {
		d.trim(units, limit, RemovedPerPod, fmt.Sprintf("its pod keeps at most %d dead of its name", limit))
	}
	limit := d.Policy.MaxContainers
	if limit < 0 || count(units) <= limit {
		return
	}
	share := max(limit/len(units), 1)
	d.trim(units, share, RemovedTotal,
		fmt.Sprintf("the node keeps at most %d dead, which leaves %d to each name in a pod", limit, share))
	if over := count(units) - limit; over > 0 {
		left := slices.Concat(slices.Collect(maps.Values(units))...)
		slices.SortFunc(left, compareAge)
		d.take(left[:over], RemovedTotal, fmt.Sprintf("the node keeps at most %d dead, and it is among the oldest", limit))
	}
}

// trim chooses the oldest containers of each unit that has more than limit.
func (d *decision) trim(units map[unit][]*dead, limit int, why Reason, detail string) {
	var over []*dead
	for u, list := range units {
		if n := len(list) - limit; n > 0 {
			over = append(over, list[:n]...)
			units[u] = list[n:]
		}
	}
	d.take(over, why, detail)
}

func (d *decision) take(list []*dead, why Reason, detail string) {
	for _, it := range list {
		it.remove, it.detail = why, detail
	}
	d.choose(list)
}

// choose appends a list to the chosen containers, oldest first.
func (d *decision) choose(list []*dead) {
	slices.SortFunc(list, compareAge)
	d.chosen = append(d.chosen, list...)
}

func count(units map[unit][]*dead) int {
	total := 0
	for _, list := range units {
		total += len(list)
	}
	return total
}
