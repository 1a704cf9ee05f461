package node

import (
	"errors"
	"log/slog"
	"time"

	"github.com/ebb-agent/ebb/agent/node/state"
)

// saveRetry is the wait after a save that failed: a full disk is not written to
// all the time.
const saveRetry = time.Minute

// saver writes the state file behind the loop, so that a slow or full disk
// never delays a removal.
type saver struct {
	dir   string
	store *state.Store // nil: the file could not be opened; tried again with each save
	now   func() time.Time
}

// run saves what it is given until in is closed, answering each with its
// error, then closes the file.
func (s *saver) run(in <-chan state.Records, out chan<- error) error {
	for r := range in {
		out <- s.save(r)
	}
	if s.store == nil {
		return nil
	}
	return s.store.Close()
}

func (s *saver) save(r state.Records) error {
	if s.store == nil {
		store, _, _, err := state.Open(s.dir, s.now())
		if err != nil {
			return err
		}
		s.store = store
	}
	return s.store.Save(r)
}

// openState reads the state file and starts ebb's clock from it. Only another
// agent that holds the file is an error: two agents must not remove images on
// one node.
func (a *Agent) openState() (*saver, error) {
	store, records, aside, err := state.Open(a.cfg.State.Directory, time.Now())
	if errors.Is(err, state.ErrLocked) {
		return nil, err
	}
	a.metrics.statePersisted.Set(1)
	if err != nil {
		a.metrics.statePersisted.Set(0)
		a.said.once(a.log, "state", slog.LevelWarn, "state cannot be written; working from memory", "error", err)
	}
	if aside != "" {
		a.log.Warn("the state file could not be read and was moved aside; every image counts as recently used",
			"reason", "damaged state file", "moved", aside)
	}
	a.rec = records
	a.startClock()
	return &saver{dir: a.cfg.State.Directory, store: store, now: time.Now}, nil
}

// startClock continues ebb's clock, or after a reboot starts it anew with
// every recorded age as it stood.
func (a *Agent) startClock() {
	m := &a.rec.Meta
	a.clock = newClock(m.Anchor, a.bootID, a.boot, a.wall)
	if m.Anchor.BootID == a.bootID || m.Saved.IsZero() {
		return
	}
	gap := a.clock.now().Sub(m.Saved)
	a.rec.Shift(gap)
	a.log.Info("first start since a reboot; ages go on where they stood", "off", gap.Round(time.Second).String(), "reason", "reboot")
}

func (a *Agent) stampMeta() {
	m := &a.rec.Meta
	m.Anchor = state.Anchor{BootID: a.bootID, Boot: a.clock.anchorBoot, Wall: a.clock.anchorWall}
	m.Saved = a.clock.now()
}

// save hands a copy of the records to the saver. While it is busy, one more
// save is remembered, not queued.
func (a *Agent) save() {
	if a.saving {
		a.saveAgain = true
		return
	}
	a.saving = true
	a.handOver()
}

// handOver gives the saver a copy of all that is to be in the file.
func (a *Agent) handOver() {
	a.stampMeta()
	r := a.rec.Clone()
	if a.rt != nil {
		r.Facts, a.factsSaved = a.rt.Learnt(a.factsSaved)
	}
	a.toSave <- r
}

func (a *Agent) saveDone(err error) {
	a.saving = false
	if err != nil {
		a.factsSaved = 0 // they may have been among it
		a.metrics.statePersisted.Set(0)
		a.metrics.saveFailures.Inc()
		a.said.once(a.log, "state", slog.LevelWarn, "state cannot be written; working from memory", "error", err)
		a.alarms.sooner(alarmSave, a.clock.now().Add(saveRetry))
	} else {
		a.metrics.statePersisted.Set(1)
		a.said.clear(a.log, "state", "state is written again")
	}
	if a.saveAgain {
		a.saveAgain = false
		a.save()
	}
}
