package election

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDone = errors.New("done")

// Whatever the library waits for, the leader learns in time, by the clock, that its lease is over.
func TestGuard(t *testing.T) {
	const lasts = 10 * time.Second
	for name, tc := range map[string]struct {
		renewals int           // one each 2 s
		foreign  bool          // of another holder
		ends     time.Duration // ctx; 0: never
		works    time.Duration // lead; 0: until its context ends
		want     error
		after    time.Duration
	}{
		"never renewed":    {want: ErrLost, after: lasts},
		"renewed":          {renewals: 5, want: ErrLost, after: 10*time.Second + lasts},
		"taken by another": {renewals: 5, foreign: true, want: ErrLost, after: lasts},
		"a clean end":      {renewals: 50, ends: time.Minute, want: nil, after: time.Minute},
		"its own end":      {renewals: 50, works: 30 * time.Second, want: errDone, after: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				me := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
				l := &lock{lasts: lasts, renewed: make(chan struct{}, 1),
					LeaseLock: &resourcelock.LeaseLock{LockConfig: resourcelock.ResourceLockConfig{Identity: "me"}}}
				if l.fence.Holds() {
					t.Error("held before it was acquired")
				}
				begun := time.Now()
				l.note(begun, me, nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.ends > 0 {
					ctx, cancel = context.WithTimeout(ctx, tc.ends)
					defer cancel()
				}
				go func() { // the library, which goes on whatever happens
					for range tc.renewals {
						select {
						case <-time.After(2 * time.Second):
						case <-ctx.Done():
							return
						}
						if tc.foreign {
							l.note(time.Now(), resourcelock.LeaderElectionRecord{HolderIdentity: "other"}, nil)
							l.note(time.Now(), me, errors.New("conflict"))
						} else {
							l.note(time.Now(), me, nil)
						}
					}
				}()
				err := l.guard(ctx, func(ctx context.Context, f *Fence) error {
					if tc.works > 0 {
						time.Sleep(tc.works)
						return errDone
					}
					<-ctx.Done()
					if errors.Is(context.Cause(ctx), ErrLost) == f.Holds() {
						t.Errorf("the fence holds: %t, the context ended with %v", f.Holds(), context.Cause(ctx))
					}
					return nil
				})
				cancel()
				if !errors.Is(err, tc.want) || time.Since(begun) != tc.after {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(begun), tc.want, tc.after)
				}
			})
		})
	}
}
