package containerd

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
)

// Cleared counts what [Runtime.Clear] has ended.
type Cleared struct {
	Restored int // images that got their names back
	Leases   int
}

// Clear removes everything of ebb from containerd, in all namespaces. First it restores the names
// of images whose withdrawal was never ended ([Runtime.Mend]), then it removes views and leases. No
// agent may run at the same time. The error names what could not be removed; containerd collects
// that once its lease expires.
func (r *Runtime) Clear(ctx context.Context) (done Cleared, err error) {
	// Mend comes first: if a lease is deleted before its records are read, its image is lost.
	mended, err := r.Mend(ctx)
	if done.Restored = len(mended); err != nil {
		return done, fmt.Errorf("put names of images back: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	if err := r.removeLeftovers(ctx); err != nil {
		return done, err
	}
	spaces, err := r.readNamespaces(ctx)
	if err != nil {
		return done, err
	}
	var errs []error
	broken := make(brokenSnapshotters)
	for i := range spaces {
		in, s := inNamespace(ctx, &spaces[i]), &spaces[i]
		n, err := r.clearLeases(in)
		done.Leases += n
		errs = append(errs, err)
		if err := r.readSnapshots(in, s, broken, "labels."+strconv.Quote(ownLabel)); err != nil {
			return done, err
		}
		for _, snap := range s.snapshots {
			if snap.ours() {
				errs = append(errs, fmt.Errorf("snapshot %s of namespace %s is still there", snap.name(), s.name))
			}
		}
	}
	return done, errors.Join(append(errs, broken.err())...)
}

func (r *Runtime) clearLeases(ctx context.Context) (n int, err error) {
	list, err := r.client.LeasesService().List(ctx)
	if err != nil {
		return 0, wrap("list leases", err)
	}
	var errs []error
	for _, l := range list {
		if l.Labels[ownLabel] == "" {
			continue
		}
		err := r.client.LeasesService().Delete(ctx, l, leases.SynchronousDelete)
		switch {
		case err == nil:
			n++
		case !errdefs.IsNotFound(err):
			errs = append(errs, wrap("give lease "+l.ID+" back", err))
		}
	}
	return n, errors.Join(errs...)
}
