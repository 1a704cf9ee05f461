package cluster

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/gate"
	"github.com/ebb-agent/ebb/policy/gc"
)

// Bounds and defaults of /collectors.
const (
	defaultWithin  = 24 * time.Hour
	defaultPlanned = 20
	maxPlanned     = 1000
)

// CollectorStatus is what a collector other than that of owners would do, as /collectors shows it.
type CollectorStatus struct {
	Collector string          `json:"collector"`
	Mode      config.Mode     `json:"mode"`    // the stricter of its own and the controller's
	Objects   int             `json:"objects"` // that it tracks
	Due       int             `json:"due"`     // within the time that was asked for
	First     []PlannedObject `json:"first"`   // of these, those due longest first
	// Counts are the numbers of objects that it reports, by reason.
	Counts map[gc.Reason]int `json:"counts,omitempty"`
	// Reports are objects that it leaves alone and that a person should check.
	Reports []PlannedObject `json:"reports,omitempty"`
}

// PlannedObject is an object that is due or reported, and why.
type PlannedObject struct {
	gate.ObjectName
	Found
	Detail string `json:"detail,omitempty"`
}

func planned(by gc.Collector, list []gc.Planned) []PlannedObject {
	shown := make([]PlannedObject, len(list))
	for i, p := range list {
		shown[i] = PlannedObject{*gate.Named(p.Object), found(by, p.Finding), p.Detail}
	}
	return shown
}

// Collectors returns, for each collector that is on, what is due within a time if nothing changes,
// and names the first objects of it.
func (c *Controller) Collectors(ctx context.Context, within time.Duration, most int) (list []CollectorStatus, err error) {
	list = []CollectorStatus{}
	err = c.loop.query(ctx, func(now time.Time) {
		settings := c.gate.Settings()
		for _, a := range c.collectors.all {
			s := CollectorStatus{Collector: a.name.String(), Mode: settings.ModeOf(a.name), Objects: a.Len()}
			first, all := a.Planned(c.serverTime(now).Add(within), most)
			s.Due, s.First = all, planned(a.name, first)
			s.Counts = a.counts(c.serverTime(now))
			if r, reports := a.Interface.(interface{ Reported(most int) []gc.Planned }); reports {
				s.Reports = planned(a.name, r.Reported(most))
			}
			list = append(list, s)
		}
	})
	return list, err
}

func (c *Controller) serveCollectors(w http.ResponseWriter, r *http.Request) {
	within, most := defaultWithin, defaultPlanned
	var err error
	if v := r.URL.Query().Get("within"); v != "" {
		if within, err = time.ParseDuration(v); err != nil || within < 0 {
			http.Error(w, fmt.Sprintf("within=%.40q: want a time such as 0s, 90m or 24h", v), http.StatusBadRequest)
			return
		}
	}
	if v := r.URL.Query().Get("limit"); v != "" {
		if most, err = strconv.Atoi(v); err != nil || most < 0 || most > maxPlanned {
			http.Error(w, fmt.Sprintf("limit=%.40q: want a number from 0 to %d", v, maxPlanned), http.StatusBadRequest)
			return
		}
	}
	list, err := c.Collectors(r.Context(), within, most)
	c.replyJSON(w, list, err)
}
