package nodes

import (
	"math"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// survey is the last inventory that was asked for, as far as it is about Nodes there are.
type survey struct {
	id      uint64    // of the action; 0: none is on its way
	asked   time.Time // that was
	refused gc.Reason // why it is not believed; empty: it is
	again   time.Time // it is not asked for before, but for deletions that follow from it
	pause   time.Duration
	size    int // machines of the last one that was believed; 0: none was
	known   machines
}

// machines can be looked up.
type machines struct {
	exact map[string]bool // names, and provider IDs
	loose map[string]bool // what a name or an ID is known by in other places
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

// Names and IDs are told apart by a letter: one must not be taken for the other.

func exactName(name string) string { return mark('n', name) }
func exactID(id string) string     { return mark('i', id) }

// looseName is a name without its domain, in small letters: who makes an inventory may
// know a machine by either.
func looseName(name string) string {
	host, _, _ := strings.Cut(name, ".")
	return mark('n', strings.ToLower(host))
}

// looseID is the last part of a provider ID, which is often all that its provider knows.
func looseID(id string) string {
	return mark('i', strings.ToLower(id[strings.LastIndexByte(id, '/')+1:]))
}

func mark(kind byte, s string) string {
	if s == "" {
		return ""
	}
	return string(kind) + s
}

// proves says whether a Node is surely among them.
func (m machines) proves(e *kept) bool {
	return m.exact[exactName(e.Name)] || m.exact[exactID(e.providerID)]
}

// has says whether a Node may be among them.
func (m machines) has(e *kept) bool {
	return m.proves(e) || m.loose[looseName(e.Name)] || m.loose[looseID(e.providerID)]
}

// Surveyed takes the answer to an Inventory action; nil: none, or one that could not be
// understood.
func (c *Collector) Surveyed(now time.Time, id uint64, list *Inventory) {
	c.Tell(now)
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

// judge says why an inventory is not believed. It must be as large as one expects, and must
// have every Node that is ready and is older than it: if it lacks a machine that runs, it
// proves of no other that it does not.
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

// least of n must be there.
func (c *Collector) least(n int) int {
	return min(int(math.Ceil(c.config.minShare()*float64(n)-rounding)), max(n-1, 0))
}

// most Nodes may be deleted within the window.
func (c *Collector) most() int {
	all := c.Objects().Len()
	for uid := range c.spent {
		if c.Objects().Get(uid) == nil {
			all++
		}
	}
	return max(1, int(c.config.maxShare()*float64(all)+rounding))
}
