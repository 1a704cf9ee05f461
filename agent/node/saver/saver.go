// Package saver writes the state file in a goroutine of its own (Run), so that a slow or full disk
// never delays a removal. The loop asks for a save, and Run writes one consistent set of records in one
// transaction. While it writes, one more save is remembered, not queued.
package saver

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bolt "go.etcd.io/bbolt"

	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/agent/program"
)

// Retry is the wait after a save that failed, so that a full disk is not written to all the time.
const Retry = time.Minute

// Options configures a Saver.
type Options struct {
	Directory  string
	Now        func() time.Time // ebb's clock, for Next
	Conditions *condition.Set
	Log        *slog.Logger

	// Records returns a copy of all that is to be saved. With all, it includes what the file has
	// already, because the last write may have failed.
	Records func(all bool) state.Records

	Opened func(*bolt.DB) // called once, when the file is open; perhaps by Run's goroutine
}

// Saver writes the state file. All methods except Run are called under one lock.
type Saver struct {
	Options
	persisted prometheus.Gauge
	in        chan state.Records
	out       chan error
	store     *state.Store // owned by Run; nil: the file could not be opened, and each save tries again
	saving    bool
	again     bool
	waiting   []chan<- error // for the next save
	answered  []chan<- error // for the save under way
	all       bool
	next      time.Time
}

// New registers the metrics.
func New(r *prometheus.Registry, o Options) *Saver {
	f := program.Factory{Registry: r, Subsystem: "node"}
	return &Saver{
		Options:   o,
		persisted: f.Gauge("state_writable", "1 while the state file can be written."),
		in:        make(chan state.Records, 1), out: make(chan error),
	}
}

const unwritable = "state cannot be written; working from memory"

// Open reads the state file. Only another agent that holds the file is an error: two
// agents must not remove images on one node.
func (s *Saver) Open() (state.Records, error) {
	store, records, aside, err := state.Open(s.Directory, time.Now())
	if errors.Is(err, state.ErrLocked) {
		return records, err
	}
	s.Conditions.Follow("state", func(fails bool) { s.persisted.Set(program.Bool(!fails)) })
	if err != nil {
		s.Conditions.Begin("state", slog.LevelWarn, unwritable, "error", err)
	}
	if aside != "" {
		s.Log.Warn("the state file could not be read and was moved aside; every image counts as recently used",
			"reason", "damaged state file", "moved", aside)
	}
	if s.store = store; store != nil {
		s.Opened(store.DB())
	}
	return records, nil
}

// Run writes each set of records that it receives until Finish, then closes the file. It outlives the
// loop's context, for the last save.
func (s *Saver) Run(context.Context) error {
	for r := range s.in {
		s.out <- s.write(r)
	}
	if s.store == nil {
		return nil
	}
	return s.store.Close()
}

func (s *Saver) write(r state.Records) error {
	if s.store == nil {
		store, _, _, err := state.Open(s.Directory, time.Now())
		if err != nil {
			return err
		}
		s.store = store
		s.Opened(store.DB())
	}
	return s.store.Save(r)
}

// Save asks for a write of the records. During a write it asks for another one after that.
func (s *Saver) Save() {
	s.next = time.Time{}
	if s.saving {
		s.again = true
		return
	}
	s.saving = true
	s.handOver()
}

// Saved asks for a write of the records as they are now. The channel receives the result of that write;
// nothing if the agent ends first.
func (s *Saver) Saved() <-chan error {
	answer := make(chan error, 1)
	s.waiting = append(s.waiting, answer)
	s.Save()
	return answer
}

func (s *Saver) handOver() {
	s.answered, s.waiting = s.waiting, nil
	s.in <- s.Records(s.all)
	s.all = false
}

// Later plans a save for that time, unless an earlier one is planned.
func (s *Saver) Later(at time.Time) {
	if s.next.IsZero() || at.Before(s.next) {
		s.next = at
	}
}

// Next returns when Save is due; the zero time if none is planned.
func (s *Saver) Next() time.Time { return s.next }

// Answers receives the result of each write. The loop hands each to Done.
func (s *Saver) Answers() <-chan error { return s.out }

// Done handles the result of a write.
func (s *Saver) Done(err error) {
	s.saving = false
	for _, answer := range s.answered {
		answer <- err
	}
	s.answered = nil
	if err != nil {
		s.all = true
		s.Conditions.Begin("state", slog.LevelWarn, unwritable, "error", err)
		s.Later(s.Now().Add(Retry))
	} else {
		s.Conditions.End("state", "state is written again")
	}
	if s.again {
		s.again = false
		s.Save()
	}
}

// Finish writes the last records, and ends Run. A later Save does nothing.
func (s *Saver) Finish() {
	if s.saving {
		s.saving = false
		s.all = <-s.out != nil
	}
	s.handOver()
	close(s.in)
	<-s.out
	s.saving = true // permanently
}
