package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Fault is one thing that goes wrong, for some time.
type Fault struct {
	Kind  string
	At    int           // begins before this operation
	Lasts time.Duration // how long it should last
	Which int           // a number to choose by: of several API servers, kinds, ways
}

func (f Fault) String() string {
	return fmt.Sprintf("%s/%d for %v at %d", f.Kind, f.Which, f.Lasts, f.At)
}

// Outages are the faults of processes and connections. Conditions are those of what the cluster is
// configured to be. At most one of each lasts at a time.
var (
	Outages = []string{"api-killed", "api-stopped", "cut-to-server", "cut-to-client", "reset", "leader-killed", "leader-frozen",
		"etcd-compacted", "etcd-defragmented", "etcd-paused", "restored", "all-api-killed"}
	Conditions = []string{"throttled", "webhook-refuses", "webhook-breaks", "version-withdrawn", "discovery-partial",
		"extension", "extension-restarted", "extension-away"}
)

// Faults generates the faults of one sort. Each kind comes once before any kind comes again.
type Faults struct {
	rand  *rand.Rand
	kinds []string
	deck  []string
	at    int
	gap   int
}

// NewFaults returns a generator of faults, about gap operations apart.
func NewFaults(seed, stream uint64, gap int, kinds []string) *Faults {
	return &Faults{rand: rand.New(rand.NewPCG(seed, stream)), kinds: kinds, gap: gap}
}

// Next returns the next fault.
func (f *Faults) Next() Fault {
	if len(f.deck) == 0 {
		f.deck = slices.Clone(f.kinds)
		f.rand.Shuffle(len(f.deck), func(i, j int) { f.deck[i], f.deck[j] = f.deck[j], f.deck[i] })
	}
	kind := f.deck[0]
	f.deck = f.deck[1:]
	f.at += f.gap/2 + f.rand.IntN(f.gap)
	return Fault{Kind: kind, At: f.at, Lasts: time.Duration(2000+f.rand.IntN(10000)) * time.Millisecond, Which: f.rand.IntN(1 << 16)}
}
