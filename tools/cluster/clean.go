package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/ebb-agent/ebb/tools/cgroup"
	"github.com/ebb-agent/ebb/tools/loopfs"
	"github.com/ebb-agent/ebb/tools/owned"
)

// patience bounds the wait for removals that the kernel does by itself, without a
// notification. They take milliseconds.
const patience = 15 * time.Second

// release removes the parts of a machine that the kernel does not remove itself.
func release(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := errors.Join(cgroup.Remove(ctx, Cgroup(dir)), loopfs.AwaitDetached(ctx, dir)); err != nil {
		return err
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err == nil && len(mounts) > 0 {
		err = fmt.Errorf("%s: something is mounted below it", dir)
	}
	return err
}

// Clean removes every machine below base that no living process owns, and returns the
// names of the removed ones.
func Clean(base string, log *slog.Logger) ([]string, error) {
	return owned.Clean(base, log, release)
}
