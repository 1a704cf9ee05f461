package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// ErrLost is the cause with which the function's context ends: another instance may lead.
var ErrLost = errors.New("the lease was lost")

// Options name the Lease, and set its timing.
type Options struct {
	Namespace, Name                           string
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	Log                                       *slog.Logger
	History                                   History // may be nil
}

// Fence reports whether this instance holds the Lease, by the clock alone. [Fence.Check] reports,
// by a live read, whether the Lease is as this instance wrote it last.
type Fence struct {
	deadline atomic.Pointer[time.Time]
	ledger   *ledger
}

// Holds reports whether this instance holds the Lease.
func (f *Fence) Holds() bool {
	d := f.deadline.Load()
	return d != nil && time.Now().Before(*d)
}

// Run waits for the Lease, then calls lead once. It returns the error of lead, or nil if ctx ended
// before lead was called. If the Lease was lost, it returns ErrLost, without waiting for the
// library.
func Run(ctx context.Context, config *rest.Config, o Options, lead func(context.Context, *Fence) error) error {
	lock, err := newLock(config, o)
	if err != nil {
		return fmt.Errorf("elect a leader: %w", err)
	}
	// The election outlives ctx: the Lease is released after lead has ended.
	electing, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	electing = klog.NewContext(electing, logr.FromSlogHandler(o.Log.Handler()).V(1))
	var leads atomic.Bool
	result := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: o.Name, ReleaseOnCancel: true,
		LeaseDuration: o.LeaseDuration, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				leads.Store(true)
				o.Log.Info("leading", "reason", "lease acquired", "lease", o.Namespace+"/"+o.Name, "identity", lock.Identity())
				result <- lock.guard(ctx, lead)
				release()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("elect a leader: %w", err)
	}
	stop := context.AfterFunc(ctx, func() {
		if !leads.Load() {
			release()
		}
	})
	defer stop()
	ended := make(chan struct{})
	go func() { defer close(ended); elector.Run(electing) }()
	return await(result, ended, &leads)
}

// await waits for the end of lead and, unless the Lease was lost, for its release.
func await(result <-chan error, ended <-chan struct{}, leads *atomic.Bool) error {
	select {
	case err := <-result:
		if !errors.Is(err, ErrLost) {
			<-ended
		}
		return err
	case <-ended:
	}
	if !leads.Load() {
		return nil
	}
	return <-result // the Lease was lost: guard ends lead in time
}

// lock is the library's lock. It also records when the Lease was last renewed.
type lock struct {
	*resourcelock.LeaseLock
	lasts   time.Duration
	fence   Fence
	renewed chan struct{}
}

func newLock(config *rest.Config, o Options) (*lock, error) {
	c := rest.CopyConfig(config)
	// One request that hangs must not cost the Lease. On a shared connection to a dead peer, the
	// next request would hang, too. An HTTP/1.1 connection ends with the request that timed out.
	c.Timeout = max(time.Second, o.RenewDeadline/2)
	c.NextProtos = []string{"http/1.1"}
	client, err := coordination.NewForConfig(rest.AddUserAgent(c, "leader-election"))
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	l := &ledger{LeaseInterface: client.Leases(o.Namespace), name: o.Name, history: o.History, retry: o.RetryPeriod}
	return &lock{
		fence: Fence{ledger: l},
		LeaseLock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name},
			Client:     l,
			LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
		},
		lasts: o.RenewDeadline, renewed: make(chan struct{}, 1),
	}, nil
}

// Create takes the Lease for the first time.
func (l *lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	begun := time.Now()
	err := l.LeaseLock.Create(ctx, r)
	l.note(begun, r, err)
	return err
}

// Update takes, renews or releases the Lease.
func (l *lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	begun := time.Now()
	err := l.LeaseLock.Update(ctx, r)
	l.note(begun, r, err)
	return err
}

// note sets the deadline after a renewal. The deadline counts from the moment the request was
// begun. Other instances count from when they see the renewal, which is later.
func (l *lock) note(begun time.Time, r resourcelock.LeaderElectionRecord, err error) {
	if err != nil || r.HolderIdentity != l.Identity() {
		return
	}
	deadline := begun.Add(l.lasts)
	l.fence.deadline.Store(&deadline)
	select {
	case l.renewed <- struct{}{}:
	default:
	}
}

// guard calls lead with a context that ends with ctx, or when the Lease was not
// renewed in time.
func (l *lock) guard(ctx context.Context, lead func(context.Context, *Fence) error) error {
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan struct{})
	defer func() { stop(nil); <-ended }()
	go func() {
		defer close(ended)
		for {
			timer := time.NewTimer(time.Until(*l.fence.deadline.Load()))
			select {
			case <-work.Done():
				timer.Stop()
				return
			case <-l.renewed:
				timer.Stop()
			case <-timer.C:
				if !l.fence.Holds() {
					stop(ErrLost)
					return
				}
			}
		}
	}()
	err := lead(work, &l.fence)
	if errors.Is(context.Cause(work), ErrLost) {
		return ErrLost
	}
	return err
}
