package bpf

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"
)

// Report describes what is in the kernel or, if nothing is, what Load would put
// there.
type Report struct {
	PinDir string `json:"pinDirectory"`
	// Trial: nothing is pinned, so the programs were loaded for this report,
	// without pins, and removed after it.
	Trial    bool           `json:"trial"`
	Note     string         `json:"note,omitempty"`
	Objects  []ObjectReport `json:"objects"`
	MapBytes uint64         `json:"mapBytes"` // kernel memory of all maps
	// Events and Lost count what the sets of this version recorded.
	Events []Count `json:"events"`
	Lost   []Count `json:"lost"`
	// RunTime is the reason why programs have no runs and times; "" if they were counted.
	RunTime string `json:"runTimeStatistics,omitempty"`
}

// ObjectReport is one set of programs and maps.
type ObjectReport struct {
	Name     string          `json:"name"`
	Layout   string          `json:"layout"`
	State    string          `json:"state"` // one of the constants below
	Reason   string          `json:"reason,omitempty"`
	Programs []ProgramReport `json:"programs"`
	Maps     []MapReport     `json:"maps"`
}

// States of an object.
const (
	StatePinned  = "pinned"  // of this version, recording
	StateOther   = "other"   // of another version, recording
	StateTrial   = "trial"   // loaded for the report
	StateFailed  = "failed"  // could not be loaded or read
	StateMissing = "missing" // not pinned although others are
)

// ProgramReport is one program.
type ProgramReport struct {
	Name        string `json:"name"`
	AttachPoint string `json:"attachPoint"`
	Attached    bool   `json:"attached"`
	Reason      string `json:"reason,omitempty"` // why not attached, or in what way less exact
	ID          uint32 `json:"id"`
	Runs        uint64 `json:"runs"`      // counted only while statistics are on
	Nanoseconds uint64 `json:"averageNs"` // of a run
	Missed      uint64 `json:"missed"`    // skipped runs: the program was running on the same CPU
}

// MapReport is one map.
type MapReport struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	MaxEntries uint32 `json:"maxEntries"`
	Entries    int    `json:"entries"` // -1: not counted for this type
	Bytes      uint64 `json:"bytes"`   // kernel memory
}

// ReadReport reads the pins below pinDir and changes nothing there. It takes no
// lock, so an agent can be running, and can replace the pins at the same time.
// If nothing is pinned, it loads the programs without pins. It counts runs for
// the duration sample, which costs every program of the node a few nanoseconds a
// run; 0 leaves that out.
func ReadReport(ctx context.Context, pinDir string, sample time.Duration) (*Report, error) {
	all, err := objects(DefaultMaxLayers)
	if err != nil {
		return nil, fmt.Errorf("probe report: %w", err)
	}
	r := &reporter{
		Report: &Report{PinDir: filepath.Clean(pinDir), Objects: []ObjectReport{}},
		live:   map[string]*set{}, seen: map[ebpf.MapID]bool{},
	}
	defer r.close()
	stop := r.startStatistics(sample)
	defer stop()
	if err := trusted(r.PinDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("probe report: %w", classify(err))
	}
	dirs, err := setDirs(r.PinDir)
	if err != nil {
		return nil, fmt.Errorf("probe report: %w", classify(err))
	}
	if r.Trial = len(dirs) == 0; r.Trial {
		r.try(all)
	} else {
		r.open(pinnedTier(all, r.PinDir), dirs)
	}
	if r.RunTime == "" {
		select {
		case <-time.After(sample):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	r.measure()
	return r.Report, nil
}
