package lastuse

import (
	"context"

	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// resolver finds the directories of layers in a goroutine of its own. Only that goroutine waits for the
// runtime to make and remove Views. Of the resolver's state it uses only disk and the channels.
type resolver struct {
	disk    Disk
	asks    chan resolveBatch
	answers chan Resolution

	runtime Resolver // nil: not connected yet
	busy    bool     // a batch is under way
	found   int      // of that batch
}

func newResolver(d Disk) resolver {
	return resolver{disk: d, asks: make(chan resolveBatch, 1), answers: make(chan Resolution)}
}

type resolveBatch struct {
	runtime Resolver
	layers  []inventory.Layer
	records []state.Layer // of the layers; zero: none
}

// Resolution is the resolver's answer on one layer.
type Resolution struct {
	layer inventory.Layer
	found state.Layer
	err   error
	last  bool // the batch is done
}

// ask has layers resolved. If a recorded place is still true, the runtime is not asked. No other batch may
// be under way.
func (s *resolver) ask(layers []inventory.Layer, known map[inventory.Layer]state.Layer) {
	s.busy = true
	records := make([]state.Layer, len(layers))
	for n, l := range layers {
		records[n] = known[l]
	}
	s.asks <- resolveBatch{runtime: s.runtime, layers: layers, records: records}
}

// done ends a batch, and returns how many layers were found.
func (s *resolver) done() (found int) {
	found = s.found
	s.busy, s.found = false, 0
	return found
}

func (s *resolver) run(ctx context.Context) error {
	for {
		var batch resolveBatch
		select {
		case <-ctx.Done():
			return nil
		case batch = <-s.asks:
		}
		for n, l := range batch.layers {
			r := Resolution{layer: l, last: n == len(batch.layers)-1}
			if r.found = batch.records[n]; r.found.Path == "" || !stillThere(s.disk, r.found) {
				r.found, r.err = s.resolve(ctx, batch.runtime, l)
			}
			select {
			case <-ctx.Done():
				return nil
			case s.answers <- r:
			}
		}
	}
}

func (s *resolver) resolve(ctx context.Context, rt Resolver, l inventory.Layer) (state.Layer, error) {
	root, err := rt.ResolveLayer(ctx, l)
	if err != nil {
		return state.Layer{}, err
	}
	d, err := s.disk.Directory(root.Path)
	return state.Layer{LayerRoot: root, Birth: d.Birth}, err
}
