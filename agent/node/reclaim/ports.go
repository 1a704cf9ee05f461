package reclaim

import (
	"context"
	"log/slog"
	"time"

	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/events"
	"github.com/ebb-agent/ebb/agent/node/history"
	"github.com/ebb-agent/ebb/agent/node/lastuse"
	"github.com/ebb-agent/ebb/agent/node/pods"
	"github.com/ebb-agent/ebb/agent/node/removal"
	"github.com/ebb-agent/ebb/agent/node/watermark"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// Runtime is what the removal of images needs of a container runtime.
type Runtime interface {
	Check(ctx context.Context, ids ...string) (map[string]inventory.Image, error)
	Users(ctx context.Context, withdrawals ...inventory.Withdrawal) ([][]string, error)
	Remove(ctx context.Context, imageID string) error
	Withdraw(ctx context.Context, i inventory.Image) (inventory.Withdrawal, error)
	Mend(ctx context.Context) (mended []string, err error)
}

// Options configures a Reclaimer. All fields are required.
type Options struct {
	Config     config.Config
	Keep       image.KeepRules
	Switch     *removal.Switch
	Disks      *watermark.Watcher
	LastUse    *lastuse.Tracker
	Pods       *pods.Pods
	Conditions *condition.Set
	Log        *slog.Logger
	History    *history.History

	Now     func() time.Time                                        // ebb's clock
	Boot    func() time.Duration                                    // CLOCK_BOOTTIME
	Outside func(f func())                                          // calls f, a call of the runtime, without the lock
	Sleep   func(ctx context.Context, d time.Duration) (slept bool) // without the lock; false if ctx ends

	Save        func()                     // asks for a save of the records
	Saved       func() <-chan error        // the same; receives the result
	LookAgain   func(at time.Time)         // asks for a look at the images at that time
	HearEvents  func() (more bool)         // handles the events sent already; more if there was any since the images were listed
	WritersGrew func(byInodes bool) string // names the largest writers; "" if they are not known
	Tell        func(events.Fact)          // posts a Kubernetes Event
}
