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

// History is informed of what becomes of the Lease's renewals: see metadata.Client.
type History interface {
	Wrote(version uint64, begun time.Time, follows, late bool)
	NotWritten()
}

// ledger is the Lease as this instance writes it. It knows whether what is there is its
// own last write, and whether each write was made on top of the one before: no backup of
// etcd that is older can have that.
type ledger struct {
	coordination.LeaseInterface
	name    string
	history History       // or nil
	retry   time.Duration // between two writes

	mu     sync.Mutex
	own    []entry // what may be there: the last write that was acknowledged, and those since that were not refused
	head   string  // resourceVersion of what is there, if that is one of them
	turns  int     // how often own was changed
	unsure bool    // a write may have failed: what is there is looked at before the next
	acked  time.Time
}

// entry is the content of a write. No two have the same: the time differs.
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

// Leases has the ledger stand in for the client.
func (l *ledger) Leases(string) coordination.LeaseInterface { return l }

// Get notes whether what is there is an own write.
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

// find what is there among the own writes. l.mu is held, and no write is on its way.
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

// Create takes the Lease where there is none.
func (l *ledger) Create(ctx context.Context, lease *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	begun := time.Now()
	l.begin(lease)
	made, err := l.LeaseInterface.Create(ctx, lease, o)
	l.ended(begun, lease, made, err)
	return made, err
}

// Update takes, renews or releases it. The API server refuses it unless what is there is
// what was read or written before.
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

// lateAfter is how much later than it should a write may come.
const lateAfter = 2 * time.Second

// maxDoubtful bounds the writes without an answer that are remembered.
const maxDoubtful = 64

func (l *ledger) begin(lease *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns++
	if l.head == "" || lease.ResourceVersion != l.head || len(l.own) > maxDoubtful {
		return // it does not follow from what this instance wrote, or will be refused
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

// missed notes an error: the write may have been carried out all the same.
func (l *ledger) missed(err error) {
	l.mu.Lock()
	l.unsure = true
	l.mu.Unlock()
	if l.history != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		l.history.NotWritten()
	}
}

// check reads the Lease live, and with it the version that etcd has come to.
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
		l.mu.Unlock() // it was written meanwhile: what was read may be one of those in between
	}
}

func version(s string) (v uint64, ok bool) {
	v, err := strconv.ParseUint(s, 10, 64)
	return v, err == nil
}

// Check implements metadata.Witness.
func (f *Fence) Check(ctx context.Context) (metadata.LeaseCheck, error) { return f.ledger.check(ctx) }
