package nodes

import (
	"math"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// survey is the last inventory that was asked for.
type survey struct {
	id      uint64    // of the action in flight; 0: none
	asked   time.Time // when it was asked for
	refused gc.Reason // why it is not believed; "": it is, or is not known yet
	again   time.Time // not asked for again before then, except for a deletion
	pause   time.Duration
	size    int // machines in the last one that was believed; 0: none was
	known   machines
}

// machines is an index of the machines in an inventory.
type machines struct {
	exact map[string]bool // names, and provider IDs
	loose map[string]bool // the same, less exact: see looseName and looseID
}

func index(list []Machine) machines {
	m := machines{make(map[string]bool, len(list)), make(map[string]bool, len(list))}
	for _, one := range list {
		m.exact[exactName(one.Name)], m.exact[exactID(one.ProviderID)] = true, true
		m.loose[looseName(one.Name)], m.loose[looseID(one.ProviderID)] = true, true
	}
	delete(m.exact, "")
	delete(m.loose, "")
	return m
}

// A prefix distinguishes names from IDs, so that a name never matches an ID.

func exactName(name string) string { return mark('n', name) }
func exactID(id string) string     { return mark('i', id) }

// looseName returns a name in lower case without its domain: an inventory may have a machine
// with or without its domain.
func looseName(name string) string {
	host, _, _ := strings.Cut(name, ".")
	return mark('n', strings.ToLower(host))
}

// looseID returns the last part of a provider ID in lower case, which is often all that its
// provider knows.
func looseID(id string) string {
	return mark('i', strings.ToLower(id[strings.LastIndexByte(id, '/')+1:]))
}

func mark(kind byte, s string) string {
	if s == "" {
		return ""
	}
	return string(kind) + s
}

// proves reports whether a Node is certainly among the machines.
func (m machines) proves(e *kept) bool {
	return m.exact[exactName(e.Name)] || m.exact[exactID(e.providerID)]
}

// has reports whether a Node may be among the machines.
func (m machines) has(e *kept) bool {
	return m.proves(e) || m.loose[looseName(e.Name)] || m.loose[looseID(e.providerID)]
}

// Surveyed receives the answer to an Inventory action. A nil list means no answer, or an
// unreadable one.
func (c *Collector) Surveyed(now time.Time, id uint64, list *Inventory) {
	c.SetTime(now)
	state := gc.Exists
	if list == nil {
		state = gc.Unknown
	}
	c.Read(now, id, gc.Answer{State: state})
	s := &c.survey
	if id != s.id {
		return
	}
	s.id, s.known = 0, machines{}
	if list == nil {
		s.refused = InventoryUnknown
		s.pause = min(max(2*s.pause, minPause), AskAgain)
		s.again = now.Add(s.pause)
	} else {
		s.pause, s.again = 0, now.Add(AskAgain)
		if s.refused = c.judge(list); s.refused == "" {
			s.size, s.known = len(list.Machines), index(list.Machines)
		}
	}
	c.PlanAll()
}

// judge returns why an inventory is not believed; "" if it is. An inventory must be as large
// as expected, and must have every ready Node that is older than it. If it lacks a machine
// that runs, the absence of another machine proves nothing.
func (c *Collector) judge(list *Inventory) gc.Reason {
	switch now := c.Now(); {
	case !c.readable():
		return InventoryUnknown
	case list.Time.After(now.Add(Ahead)):
		return InventoryFuture
	case now.Sub(list.Time) > c.config.maxAge():
		return InventoryOld
	case len(list.Machines) == 0:
		return InventoryEmpty
	case len(list.Machines) < c.least(c.survey.size):
		return InventoryShrunken
	}
	m := index(list.Machines)
	ready, there := 0, 0
	for e := range c.Objects().All {
		if m.has(e) {
			there++
		}
		if !e.ready || e.terminating || e.created.Time().After(list.Time) {
			continue
		}
		if ready++; !m.proves(e) {
			return InventoryPartial
		}
	}
	switch {
	case ready == 0:
		return InventoryUnproven
	case there < c.least(c.Objects().Len()):
		return InventoryShrunken
	}
	return ""
}

// least returns how many of n an inventory must have.
func (c *Collector) least(n int) int {
	return min(int(math.Ceil(c.config.minShare()*float64(n)-rounding)), max(n-1, 0))
}

// fresh reports whether an earlier process may have deleted Nodes within the window.
func (c *Collector) fresh() bool { return c.Now().Sub(c.began) < window }

// most returns how many Nodes may be deleted within the window.
func (c *Collector) most() int {
	if c.fresh() {
		return 1
	}
	return c.share()
}

// share returns what MaxShare allows within the window.
func (c *Collector) share() int {
	all := c.Objects().Len()
	for uid := range c.spent {
		if c.Objects().Get(uid) == nil {
			all++
		}
	}
	return max(1, int(c.config.maxShare()*float64(all)+rounding))
}
