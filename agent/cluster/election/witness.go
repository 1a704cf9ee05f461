package election

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// History receives the result of each write of the Lease: see [metadata.Client.Wrote] and
// [metadata.Client.NotWritten].
type History interface {
	Wrote(version uint64, begun time.Time, follows, late bool)
	NotWritten()
}

// ledger is a client of the Lease that remembers what this instance wrote. It knows whether the
// stored Lease is its own last write, and whether each write was made on top of the one before. An
// older backup of etcd cannot have that write.
type ledger struct {
	coordination.LeaseInterface
	name    string
	history History       // or nil
	retry   time.Duration // between two writes

	mu     sync.Mutex
	own    []entry // what may be stored: the last acknowledged write, and later ones not refused
	head   string  // resourceVersion of the stored Lease, if that is one of own
	turns  int     // how often own was changed
	unsure bool    // a write may have failed: the Lease must be read before the next one
	acked  time.Time
}

// entry is the content of a write. No two writes have the same content: the time differs.
type entry struct {
	holder  string
	renewed int64 // in microseconds, as the API has it
}

func entryOf(l *coordinationv1.Lease) (e entry) {
	if h := l.Spec.HolderIdentity; h != nil {
		e.holder = *h
	}
	if t := l.Spec.RenewTime; t != nil {
		e.renewed = t.UnixMicro()
	}
	return e
}

// Leases returns the ledger, in place of the client.
func (l *ledger) Leases(string) coordination.LeaseInterface { return l }

// Get reads the Lease, and notes whether it is a write of this instance.
func (l *ledger) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	lease, err := l.LeaseInterface.Get(ctx, name, o)
	if err != nil {
		l.missed(err)
		return lease, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.find(lease)
	return lease, nil
}

// find looks for the stored Lease among the writes of this instance. The caller holds l.mu, and no
// write is in flight.
func (l *ledger) find(lease *coordinationv1.Lease) {
	l.turns++
	l.unsure = false
	for i, e := range l.own {
		if e == entryOf(lease) {
			l.own, l.head = l.own[i:], lease.ResourceVersion
			return
		}
	}
	l.own, l.head = nil, ""
}

// Create creates the Lease where there is none.
func (l *ledger) Create(ctx context.Context, lease *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	begun := time.Now()
	l.begin(lease)
	made, err := l.LeaseInterface.Create(ctx, lease, o)
	l.ended(begun, lease, made, err)
	return made, err
}

// Update takes, renews or releases the Lease. The API server refuses the update unless the stored
// Lease is the one that was read or written before.
func (l *ledger) Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	l.mu.Lock()
	unsure := l.unsure
	l.mu.Unlock()
	if unsure {
		if _, err := l.Get(ctx, l.name, metav1.GetOptions{}); err != nil {
			return nil, err
		}
	}
	begun := time.Now()
	l.begin(lease)
	made, err := l.LeaseInterface.Update(ctx, lease, o)
	l.ended(begun, lease, made, err)
	return made, err
}

// lateAfter is how long after its RetryPeriod a write may be acknowledged before it counts as late.
const lateAfter = 2 * time.Second

// maxDoubtful bounds the remembered writes that got no answer.
const maxDoubtful = 64

func (l *ledger) begin(lease *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns++
	if l.head == "" || lease.ResourceVersion != l.head || len(l.own) > maxDoubtful {
		return // it does not follow this instance's last write, or will be refused
	}
	l.own = append(l.own, entryOf(lease))
}

func (l *ledger) ended(begun time.Time, lease, made *coordinationv1.Lease, err error) {
	if err != nil {
		l.missed(err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns++
	now := time.Now()
	follows := l.head != "" && lease.ResourceVersion == l.head
	late := !l.acked.IsZero() && now.Sub(l.acked) > l.retry+lateAfter
	l.own, l.head, l.unsure, l.acked = []entry{entryOf(made)}, made.ResourceVersion, false, now
	if v, ok := version(made.ResourceVersion); ok && l.history != nil {
		l.history.Wrote(v, begun, follows, late)
	}
}

// missed notes a failed request. A write may have been carried out all the same.
func (l *ledger) missed(err error) {
	l.mu.Lock()
	l.unsure = true
	l.mu.Unlock()
	if l.history != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		l.history.NotWritten()
	}
}

// check reads the Lease live, and with it the version that etcd has reached.
func (l *ledger) check(ctx context.Context) (metadata.LeaseCheck, error) {
	for {
		l.mu.Lock()
		own, turns := l.own, l.turns
		l.mu.Unlock()
		list, err := l.LeaseInterface.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + l.name, Limit: 1})
		if err != nil {
			return metadata.LeaseCheck{}, fmt.Errorf("read the lease: %w", err)
		}
		var s metadata.LeaseCheck
		var numbers bool
		if s.Version, numbers = version(list.ResourceVersion); !numbers {
			return s, nil
		}
		l.mu.Lock()
		known, changed := own, l.turns != turns
		known = append(known[:len(known):len(known)], l.own...)
		for _, e := range known {
			s.Same = s.Same || len(list.Items) == 1 && e == entryOf(&list.Items[0])
		}
		if s.Same || !changed {
			if !s.Same {
				l.own, l.head = nil, ""
			}
			l.mu.Unlock()
			return s, nil
		}
		l.mu.Unlock() // written during the read: the Lease that was read may be one in between
	}
}

func version(s string) (v uint64, ok bool) {
	v, err := strconv.ParseUint(s, 10, 64)
	return v, err == nil
}

// Check implements metadata.Witness.
func (f *Fence) Check(ctx context.Context) (metadata.LeaseCheck, error) { return f.ledger.check(ctx) }
