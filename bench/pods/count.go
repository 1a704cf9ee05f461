package main

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/peers"
)

// phase is a period in which requests are counted.
type phase struct {
	name        string
	from, until time.Time
	known       time.Duration // until every agent knew its pods; 0: they did all the time
}

// request is a request of an agent.
type request struct {
	kind string // lists, newest, watches
	at   time.Time
}

// requests returns all requests that the agents have sent.
func (b *fixture) requests() (all []request, err error) {
	_, readErr := b.cp.ReadAudit(0, func(e peers.AuditEvent) {
		if e.User.Username != user || err != nil {
			return
		}
		var kind string
		if kind, err = kindOf(e); err == nil {
			all = append(all, request{kind, e.RequestReceivedTimestamp})
		}
	})
	if err == nil {
		err = readErr
	}
	return all, err
}

// kindOf returns the kind of a request. It is an error if an agent's source sends another request,
// such as a list that may be of any age.
func kindOf(e peers.AuditEvent) (string, error) {
	u, err := url.Parse(e.RequestURI)
	if err != nil {
		return "", err
	}
	q := u.Query()
	switch version := q.Get("resourceVersion"); {
	case e.Verb == "watch":
		return "watches", nil
	case e.Verb == "list" && strings.HasPrefix(q.Get("fieldSelector"), "metadata.name="):
		return "newest", nil
	case e.Verb == "list" && q.Get("resourceVersionMatch") == "NotOlderThan" && version != "" && version != "0":
		return "lists", nil
	}
	return "", fmt.Errorf("an agent asked: %s %s", e.Verb, e.RequestURI)
}

// add computes the figures of one phase.
func (f figures) add(p phase, requests []request, agents int) error {
	counts := make(map[string]int)
	second := make(map[int]int) // lists, by the second since the phase began
	for _, r := range requests {
		if r.at.Before(p.from) || !r.at.Before(p.until) {
			continue
		}
		counts[r.kind]++
		if r.kind == "lists" {
			second[int(r.at.Sub(p.from).Seconds())]++
		}
	}
	all := 0
	for _, kind := range []string{"lists", "newest", "watches"} {
		all += counts[kind]
		f[p.name+"_"+kind+"_per_agent"] = result.Round(float64(counts[kind]) / float64(agents))
	}
	if all == 0 && p.name != "idle" {
		return fmt.Errorf("%s: no requests are in the audit log", p.name)
	}
	length := p.until.Sub(p.from)
	f[p.name+"_requests_per_agent_min"] = result.Round(float64(all) / float64(agents) / length.Minutes())
	f[p.name+"_lists_peak_s"] = peak(second, int(length/time.Second))
	f[p.name+"_known_s"] = result.Round(p.known.Seconds())
	return nil
}

// peak returns the most lists in any ten seconds, per second.
func peak(second map[int]int, seconds int) float64 {
	const window = 10
	most := 0
	for from := range max(seconds-window, 0) + 1 {
		sum := 0
		for s := from; s < from+window; s++ {
			sum += second[s]
		}
		most = max(most, sum)
	}
	return float64(most) / window
}
