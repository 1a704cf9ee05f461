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
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/wait"
)

const (
	// withdrawnLabel, with a number behind it, holds one record of the image that
	// a lease keeps while its names are away.
	withdrawnLabel = "ebb-agent.github.io/withdrawn."
	// withdrawTime is how long a lease keeps an image if no agent comes back to end what was begun.
	// Then containerd collects the image, and nobody has looked whether it is needed.
	withdrawTime = 24 * time.Hour
	// maxLabel is containerd's limit for a label, key and value together
	// (core/metadata/boltutil, pkg/labels.Validate).
	maxLabel = 4096
	// endTimeout bounds the end of a withdrawal: containerd collects the image's
	// garbage before it answers.
	endTimeout = 2 * time.Minute
	// seenTime bounds the wait for the CRI to know an image again. It learns of names
	// by events, and usually takes milliseconds.
	seenTime = time.Second
	seenTick = 2 * time.Millisecond
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

// Withdraw takes an image's names away, those that the caller knows from an inventory or
// [Runtime.Check], and keeps everything else. A name that it has got since stays, and shows
// as a user. From then on nobody can start a container by the others, and whoever is
// about to either shows, or pulls it. The caller looks once more and ends the withdrawal:
// by Restore or by Complete. What a crash leaves is for [Runtime.Mend].
//
// If this fails, the names are back, or Mend will bring them. An image that is gone
// is inventory.ErrNotFound; one that was pulled or pinned since, or has lost a name, is
// inventory.ErrChanged; one that cannot be withdrawn, only removed, is inventory.ErrUnsupported.
// Where the CRI writes an image's records anew because of a new name (containerd 1.6, for names
// that were made without its label), that is a change, too.
func (r *Runtime) Withdraw(ctx context.Context, i inventory.Image) (inventory.Withdrawal, error) {
	w, err := r.prepare(ctx, i)
	if err != nil {
		return nil, fmt.Errorf("withdraw image %s: %w", i.ID, err)
	}
	if err := w.takeNames(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("withdraw image %s: %w", i.ID, err), w.Restore(ctx))
	}
	return w, nil
}

// prepare records the image and makes the lease.
func (r *Runtime) prepare(ctx context.Context, known inventory.Image) (*withdrawal, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	w := &withdrawal{r: r, imageID: known.ID}
	ctx = inCRI(ctx)
	list, err := r.recordsNow(ctx, known)
	if err != nil {
		return nil, err
	}
	options := []leases.Opt{leases.WithRandomID(), leases.WithExpiration(withdrawTime), leases.WithLabel(ownLabel, r.nonce)}
	for _, i := range list {
		text, err := json.Marshal(i)
		if err != nil {
			return nil, err
		}
		key := withdrawnLabel + strconv.Itoa(len(w.records))
		if len(key)+len(text) > maxLabel {
			return nil, fmt.Errorf("%w: %w", inventory.ErrUnsupported, errRecordTooLong)
		}
		options = append(options, leases.WithLabel(key, string(text)))
		w.records, w.chain = append(w.records, i), r.resolve(ctx, i.Target).chain
	}
	if w.lease, err = r.client.LeasesService().Create(ctx, options...); err != nil {
		return nil, wrap("create lease", err)
	}
	if err := w.hold(ctx); err != nil {
		return nil, errors.Join(err, w.end(ctx, false))
	}
	return w, nil
}

// recordsNow reads the records of an image by its names: for a list, containerd goes through
// thousands of others.
func (r *Runtime) recordsNow(ctx context.Context, known inventory.Image) (list []images.Image, err error) {
	var newest time.Time
	for _, name := range known.References {
		i, err := r.client.ImageService().Get(ctx, name)
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, wrap(fmt.Sprintf("read name %q", name), err)
		}
		if r.resolve(ctx, i.Target).id == known.ID && !isPinned(i.Labels) {
			list = append(list, i)
			newest = latest(newest, updated(i))
		}
	}
	if len(list) > 0 && len(list) == len(known.References) && newest.Equal(known.Updated) {
		return list, nil
	}
	if list, err = r.imagesOf(ctx, known.ID); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, inventory.ErrNotFound
	}
	return nil, inventory.ErrChanged
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

// Users looks for what has come to stand on withdrawn images since: containers that the
// CRI made from them, snapshots on their top layers in any namespace, and names, with
// which somebody has pulled them. The answer is in the order of the withdrawals.
func (r *Runtime) Users(ctx context.Context, withdrawals ...inventory.Withdrawal) ([][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	ids, chains := make([]string, len(withdrawals)), map[string]bool{}
	users := make([][]string, len(withdrawals))
	for n, some := range withdrawals {
		w, ok := some.(*withdrawal)
		if !ok {
			return nil, fmt.Errorf("users of a withdrawal: %T is another runtime's", some)
		}
		if ids[n] = w.imageID; w.chain != "" {
			chains[w.chain] = true
		}
	}
	containers, err := r.cri.ListContainers(ctx)
	if err != nil {
		return nil, err
	}
	var names []images.Image
	var spaces []space
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		names, err = r.imagesOf(inCRI(gctx), ids...)
		return err
	})
	g.Go(func() (err error) {
		if len(chains) == 0 {
			return nil
		}
		if spaces, err = r.readNamespaces(gctx); err != nil {
			return err
		}
		return r.readStanding(gctx, spaces, chains)
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for n, some := range withdrawals {
		w := some.(*withdrawal)
		for _, c := range containers {
			if c.ImageID == w.imageID {
				users[n] = append(users[n], "container "+criNamespace+"/"+c.ID)
			}
		}
		for _, i := range names {
			if i.Name != w.imageID && r.resolve(ctx, i.Target).id == w.imageID {
				users[n] = append(users[n], "name "+i.Name)
			}
		}
		for _, s := range spaces {
			for _, snap := range s.snapshots {
				if w.chain != "" && snap.parent == w.chain && !snap.committed && !snap.ours() {
					users[n] = append(users[n], "snapshot "+s.name+"/"+snap.key)
				}
			}
		}
		users[n] = sortedSet(users[n])
	}
	return users, nil
}

// Restore puts the names back that are free; one that was given to another image
// meanwhile stays with it. It returns when the CRI lists the image again, or a second
// later, or if ctx is done.
func (w *withdrawal) Restore(ctx context.Context) error {
	back, _, err := w.putBack(ctx)
	if back && err == nil {
		w.r.awaitSeen(ctx, w.imageID)
	}
	return err
}

// putBack is Restore without the wait; back is false if every name has been taken
// meanwhile, and gone is true if the image is no more: names would lead nowhere then, and
// whoever needs it would not pull it.
func (w *withdrawal) putBack(ctx context.Context) (back, gone bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	ctx = inCRI(ctx)
	// A crash, or a full disk, can have left the lease without what it is to hold.
	if err := w.hold(ctx); err != nil && !errdefs.IsNotFound(err) {
		return false, false, err
	}
	for _, i := range w.records {
		if w.r.isGone(ctx, i.Target) {
			gone = true
			continue
		}
		_, err := w.r.client.ImageService().Create(ctx, i)
		if err != nil && !errdefs.IsAlreadyExists(err) {
			return back, false, wrap(fmt.Sprintf("put name %q of image %s back", i.Name, w.imageID), err)
		}
		back = back || err == nil
	}
	return back, gone && !back, w.end(ctx, false)
}

// isGone reports whether the manifest or the config is missing that a record leads to.
// Layers may be missing: containerd can be configured to drop them once they are unpacked.
func (r *Runtime) isGone(ctx context.Context, target ocispec.Descriptor) bool {
	_, err := resolveContent(ctx, boundedProvider{r.client.ContentStore()}, target)
	return errdefs.IsNotFound(err)
}

// awaitSeen waits until the CRI lists images again. Without it a plan that is made at
// once would lack them, and take others in their place.
func (r *Runtime) awaitSeen(ctx context.Context, ids ...string) {
	ctx, cancel := context.WithTimeout(ctx, seenTime)
	defer cancel()
	for _, id := range ids {
		for {
			if _, err := r.cri.ImageStatus(ctx, id); err == nil {
				break
			}
			if !wait.Sleep(ctx, seenTick) {
				return
			}
		}
	}
}

// Complete lets the image go. One collection of garbage, for which it waits if it is to,
// is of all that was completed before, too: it looks at everything that containerd has.
func (w *withdrawal) Complete(ctx context.Context, collect bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := w.r.removeStray(ctx, w.imageID); err != nil {
		return err
	}
	return w.end(inCRI(ctx), collect)
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
// have let the image go. It returns the images' IDs. Nobody else may withdraw images
// meanwhile.
func (r *Runtime) Mend(ctx context.Context) (mended []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	ctx = inCRI(ctx)
	list, err := r.client.LeasesService().List(ctx)
	if err != nil {
		return nil, wrap("list leases", err)
	}
	var errs []error
	var absent []string
	for _, l := range list {
		w := &withdrawal{r: r, lease: l, records: recordsOf(l)}
		if len(w.records) == 0 {
			continue
		}
		w.imageID = r.resolve(ctx, w.records[0].Target).id
		back, gone, err := w.putBack(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if gone {
			continue
		}
		mended = append(mended, w.imageID)
		if back && w.imageID != "" {
			absent = append(absent, w.imageID)
		}
	}
	r.awaitSeen(ctx, absent...)
	return mended, errors.Join(errs...)
}

// isWithdrawal is whether a lease carries records.
func isWithdrawal(l leases.Lease) bool {
	for key := range l.Labels {
		if strings.HasPrefix(key, withdrawnLabel) {
			return true
		}
	}
	return false
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
