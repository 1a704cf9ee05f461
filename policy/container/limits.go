package container

import (
	"fmt"
	"maps"
	"slices"
)

// unit is what MaxPerPodContainer counts: the containers of one name in one
// pod, which are the restarts of one container.
type unit struct {
	podUID string
	name   string
}

func (it *dead) unit() unit { return unit{it.Pod.UID, it.Name} }

// enforceLimits chooses what goes: all that pods which have no more rights
// left behind, then what is over the limits. The order, and the way in which
// two limits that cannot both hold are reconciled, are the kubelet's.
//
// A dead container is ripe once it is MinAge old; a younger one is neither removed nor
// counted. Of the ripe ones go, the oldest first in each of these passes: all of pods
// that have lost their rights; of each unit what is over MaxPerPodContainer; and, if more
// than MaxContainers are left, of each unit what is over its equal share of them (one at
// worst), and then the oldest anywhere.
//
// The equal share can take more than is needed: of six in units of five and one, with
// room for five, two are left in the first, where dropping one would do. The kubelet does
// the same.
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

// trim takes the oldest of each unit that has more than limit.
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

// choose puts a list of containers behind those chosen before, the oldest
// first.
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
