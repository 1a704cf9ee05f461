package election

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// stored is a Lease as etcd has it, with the faults that a real one will not produce when
// they are wanted.
type stored struct {
	coordination.LeaseInterface
	lease    *coordinationv1.Lease
	revision int
	lost     bool // the next answer
	down     bool
	read     func() // after each list was read, before it arrives
}

var errDown = errors.New("connection refused")

func (s *stored) answer() (*coordinationv1.Lease, error) {
	if s.lost {
		s.lost = false
		return nil, errDown
	}
	return s.lease.DeepCopy(), nil
}

func (s *stored) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	if s.down {
		return nil, errDown
	}
	return s.answer()
}

func (s *stored) Update(_ context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if s.down {
		return nil, errDown
	}
	if l.ResourceVersion != s.lease.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, l.Name, errors.New("modified"))
	}
	s.put(l)
	return s.answer()
}

func (s *stored) put(l *coordinationv1.Lease) {
	s.revision += 10
	s.lease = l.DeepCopy()
	s.lease.ResourceVersion = strconv.Itoa(s.revision)
}

func (s *stored) List(context.Context, metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	list := &coordinationv1.LeaseList{Items: []coordinationv1.Lease{*s.lease.DeepCopy()}}
	list.ResourceVersion = strconv.Itoa(s.revision + 5)
	if s.read != nil {
		s.read()
	}
	return list, nil
}

// recorder records the calls of a History.
type recorder []string

func (h *recorder) Wrote(version uint64, _ time.Time, follows, _ bool) {
	*h = append(*h, fmt.Sprintf("%d %t", version, follows))
}
func (h *recorder) NotWritten() { *h = append(*h, "nothing") }

// What is there is this instance's last write, or follows from it, or is not: whatever
// answers got lost, whoever else wrote, and if etcd was restored.
func TestLedger(t *testing.T) {
	me, now := "me", time.Unix(1_000_000, 0)
	written := func(holder, version string) *coordinationv1.Lease {
		now = now.Add(time.Second)
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l", ResourceVersion: version},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &metav1.MicroTime{Time: now}}}
	}
	for name, test := range map[string]struct {
		do   func(s *stored, l *ledger, renew func())
		want string // calls of the history after the first two
		same bool
	}{
		"renewed": {func(s *stored, l *ledger, renew func()) { renew() }, "130 true", true},
		"its word was changed": {func(s *stored, l *ledger, renew func()) { // by a Mark
			s.put(s.lease)
		}, "", true},
		"its word was changed, and renewed": {func(s *stored, l *ledger, renew func()) {
			s.put(s.lease)
			renew() // refused
			renew()
		}, "140 true", true},
		"the answer got lost": {func(s *stored, l *ledger, renew func()) {
			s.lost = true
			renew()
		}, "nothing", true},
		"the answer got lost, and renewed": {func(s *stored, l *ledger, renew func()) {
			s.lost = true
			renew()
			renew()
		}, "nothing, 140 true", true},
		"away": {func(s *stored, l *ledger, renew func()) {
			s.down = true
			renew()
			renew()
			s.down = false
			renew()
		}, "nothing, nothing, nothing, nothing, 130 true", true},
		"another holds it": {func(s *stored, l *ledger, renew func()) {
			s.put(written("another", ""))
		}, "", false},
		"restored from before the last write": {func(s *stored, l *ledger, renew func()) {
			s.lease = written(me, "110")
		}, "", false},
		"restored, and overwritten": {func(s *stored, l *ledger, renew func()) {
			s.lease = written(me, "110")
			renew() // refused
			renew()
		}, "130 false", true},
		"restored, and another had written at the same version": {func(s *stored, l *ledger, renew func()) {
			s.down = true
			renew()
			s.down = false
			s.lease = written("another", s.lease.ResourceVersion)
			renew()
		}, "nothing, nothing, 130 false", true},
	} {
		t.Run(name, func(t *testing.T) {
			var h recorder
			s := &stored{revision: 100, lease: written("nobody", "100")}
			l := &ledger{LeaseInterface: s, name: "l", history: &h, retry: time.Hour}
			var held *coordinationv1.Lease // as the library has it
			renew := func() {
				lease := written(me, held.ResourceVersion)
				if made, err := l.Update(t.Context(), lease, metav1.UpdateOptions{}); err == nil {
					held = made
				} else if got, err := l.Get(t.Context(), "l", metav1.GetOptions{}); err == nil {
					held = got
				}
			}
			held, _ = l.Get(t.Context(), "l", metav1.GetOptions{})
			renew()
			renew()
			if got := strings.Join(h, ", "); got != "110 false, 120 true" {
				t.Fatalf("at first: %s", got)
			}
			test.do(s, l, renew)
			if got := strings.Join(h[2:], ", "); got != test.want {
				t.Errorf("recorded %q, want %q", got, test.want)
			}
			sight, err := l.check(t.Context())
			if err != nil || sight.Same != test.same || sight.Version != uint64(s.revision+5) {
				t.Errorf("%+v, %v, want the same: %t", sight, err, test.same)
			}
		})
	}
}

// Renewals come between the read and its answer: that is no other history.
func TestLookBesideRenewals(t *testing.T) {
	s := &stored{revision: 100, lease: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "100"}}}
	l := &ledger{LeaseInterface: s, name: "l", retry: time.Hour}
	renewals := 0
	renew := func() {
		renewals++
		lease := s.lease.DeepCopy()
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Unix(int64(renewals), 0)}
		if _, err := l.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	renew()
	s.read = func() {
		s.read = nil
		renew()
		renew()
	}
	if sight, err := l.check(t.Context()); err != nil || !sight.Same {
		t.Errorf("%+v, %v", sight, err)
	}
}
