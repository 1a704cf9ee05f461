package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

const (
	// withdrawnLabel, with a number behind it, holds one record of the image that
	// a lease keeps while its names are away.
	withdrawnLabel = "ebb-agent.github.io/withdrawn."
	// withdrawTime is how long a lease keeps an image if nobody comes back to end
	// what was begun.
	withdrawTime = 10 * time.Minute
	// maxLabel is containerd's limit for a label, key and value together
	// (core/metadata/boltutil, pkg/labels.Validate).
	maxLabel = 4096
	// endTimeout bounds the end of a withdrawal: containerd collects the image's
	// garbage before it answers.
	endTimeout = 2 * time.Minute
)

// errRecordTooLong is for an image whose records a lease cannot hold.
var errRecordTooLong = errors.New("a record of the image is too long for a label")

// withdrawal is an image whose names are away, while a lease keeps the rest. The
// lease carries the records, so that whoever finds it can put the names back: the
// state of a withdrawal is all in containerd's own database, and as crash-proof.
type withdrawal struct {
	r              *Runtime
	imageID, chain string
	lease          leases.Lease
	records        []images.Image
}

// Withdraw takes an image's names away, all that it has in the CRI's namespace when
// Withdraw is called, and keeps everything else. From then on nobody can start a
// container from it, and whoever is about to either shows, or pulls it. The caller
// looks once more and ends the withdrawal: by Restore or by Complete. What a crash
// leaves is for [Runtime.Mend].
//
// If this fails, the names are back, or Mend will bring them. An image that is gone
// is inventory.ErrNotFound; one that cannot be withdrawn, only removed, is
// inventory.ErrUnsupported.
func (r *Runtime) Withdraw(ctx context.Context, imageID string) (inventory.Withdrawal, error) {
	w, err := r.prepare(ctx, imageID)
	if err != nil {
		return nil, fmt.Errorf("withdraw image %s: %w", imageID, err)
	}
	if err := w.takeNames(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("withdraw image %s: %w", imageID, err), w.Restore(ctx))
	}
	return w, nil
}

// prepare records the image and makes the lease.
func (r *Runtime) prepare(ctx context.Context, imageID string) (*withdrawal, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	w := &withdrawal{r: r, imageID: imageID}
	ctx = inCRI(ctx)
	list, err := r.client.ImageService().List(ctx)
	if err != nil {
		return nil, wrap("list images", err)
	}
	options := []leases.Opt{leases.WithRandomID(), leases.WithExpiration(withdrawTime), leases.WithLabel(ownLabel, r.nonce)}
	for _, i := range list {
		content := r.resolve(ctx, i.Target)
		if content.id != imageID {
			continue
		}
		text, err := json.Marshal(i)
		if err != nil {
			return nil, err
		}
		key := withdrawnLabel + strconv.Itoa(len(w.records))
		if len(key)+len(text) > maxLabel {
			return nil, fmt.Errorf("%w: %w", inventory.ErrUnsupported, errRecordTooLong)
		}
		options = append(options, leases.WithLabel(key, string(text)))
		w.records, w.chain = append(w.records, i), content.chain
	}
	if len(w.records) == 0 {
		return nil, inventory.ErrNotFound
	}
	if w.lease, err = r.client.LeasesService().Create(ctx, options...); err != nil {
		return nil, wrap("create lease", err)
	}
	if err := w.hold(ctx); err != nil {
		return nil, errors.Join(err, w.end(ctx, false))
	}
	return w, nil
}

// hold puts what the records stand for under the lease. The rest hangs on that:
// manifest, config and snapshots by the references that containerd's labels make.
func (w *withdrawal) hold(ctx context.Context) error {
	held := map[string]bool{}
	for _, i := range w.records {
		id := i.Target.Digest.String()
		if held[id] {
			continue
		}
		held[id] = true
		err := w.r.client.LeasesService().AddResource(ctx, w.lease, leases.Resource{ID: id, Type: "content"})
		if err != nil {
			return wrap("hold content", err)
		}
	}
	return nil
}

func (w *withdrawal) takeNames(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for _, i := range w.records {
		// Only this very image's: a name that was given away meanwhile stays.
		err := w.r.client.ImageService().Delete(inCRI(ctx), i.Name, images.DeleteTarget(&i.Target))
		if err != nil && !errdefs.IsNotFound(err) {
			return wrap(fmt.Sprintf("take name %q away", i.Name), err)
		}
	}
	return nil
}

// Users looks for what has come to stand on the image since: containers that the
// CRI made from it, snapshots on its top layer in any namespace, and names, with
// which somebody has pulled it.
func (w *withdrawal) Users(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var users []string
	list, err := w.r.cri.ListContainers(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		if c.ImageID == w.imageID {
			users = append(users, "container "+criNamespace+"/"+c.ID)
		}
	}
	names, err := w.r.namesOf(ctx, w.imageID)
	if err != nil {
		return nil, err
	}
	for name := range names {
		if name != w.imageID {
			users = append(users, "name "+name)
		}
	}
	if w.chain == "" {
		return sortedSet(users), nil
	}
	spaces, err := w.r.readNamespaces(ctx)
	if err != nil {
		return nil, err
	}
	for i := range spaces {
		s := &spaces[i]
		if err := w.r.readSnapshots(inNamespace(ctx, s), s, "parent=="+strconv.Quote(w.chain)); err != nil {
			return nil, err
		}
		for _, snap := range s.snapshots {
			if !snap.committed && !snap.ours() {
				users = append(users, "snapshot "+s.name+"/"+snap.key)
			}
		}
	}
	return sortedSet(users), nil
}

// Restore puts the names back that are free; one that was given to another image
// meanwhile stays with it. The CRI sees them some milliseconds later.
func (w *withdrawal) Restore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	ctx = inCRI(ctx)
	for _, i := range w.records {
		if _, err := w.r.client.ImageService().Create(ctx, i); err != nil && !errdefs.IsAlreadyExists(err) {
			return wrap(fmt.Sprintf("put name %q of image %s back", i.Name, w.imageID), err)
		}
	}
	return w.end(ctx, false)
}

// Complete lets the image go, and returns when containerd has collected what
// nothing else keeps.
func (w *withdrawal) Complete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := w.r.removeStray(ctx, w.imageID); err != nil {
		return err
	}
	return w.end(inCRI(ctx), true)
}

// end gives the lease back. An image restored is collected by nobody, so that this
// need not be waited for.
func (w *withdrawal) end(ctx context.Context, collect bool) error {
	var options []leases.DeleteOpt
	if collect {
		options = append(options, leases.SynchronousDelete)
	}
	err := w.r.client.LeasesService().Delete(ctx, w.lease, options...)
	if errdefs.IsNotFound(err) {
		return nil
	}
	return wrap("give lease "+w.lease.ID+" back", err)
}

// Mend puts back the names of images whose withdrawal nobody has ended, for a
// crash can come at any moment of it: it is not known whether the last look would
// have let the image go. It returns how many images there were. Nobody else may
// withdraw images meanwhile.
func (r *Runtime) Mend(ctx context.Context) (mended int, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	ctx = inCRI(ctx)
	list, err := r.client.LeasesService().List(ctx)
	if err != nil {
		return 0, wrap("list leases", err)
	}
	var errs []error
	for _, l := range list {
		w := &withdrawal{r: r, lease: l, records: recordsOf(l)}
		if len(w.records) == 0 {
			continue
		}
		if err := w.Restore(ctx); err != nil {
			errs = append(errs, err)
			continue
		}
		mended++
	}
	return mended, errors.Join(errs...)
}

// recordsOf reads the records that a lease carries; none if it is not ours.
func recordsOf(l leases.Lease) (records []images.Image) {
	if l.Labels[ownLabel] == "" {
		return nil
	}
	for key, text := range l.Labels {
		if !strings.HasPrefix(key, withdrawnLabel) {
			continue
		}
		var i images.Image
		// Nobody but us writes them; what cannot be read is nothing to put back.
		if err := json.Unmarshal([]byte(text), &i); err == nil && i.Name != "" && i.Target.Digest.Validate() == nil {
			records = append(records, i)
		}
	}
	return records
}
