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
	// withdrawnLabel, followed by a number, is the label for one record of a withdrawn image. It is
	// on the lease that keeps the image.
	withdrawnLabel = "ebb-agent.github.io/withdrawn."
	// withdrawTime is how long a lease keeps an image if no agent ends the withdrawal. After that
	// containerd collects the image, without a check whether it is in use.
	withdrawTime = 24 * time.Hour
	// maxLabel is containerd's limit for a label, key and value together
	// (core/metadata/boltutil, pkg/labels.Validate).
	maxLabel = 4096
	// endTimeout bounds a removal: containerd collects the image's garbage before it answers.
	endTimeout = 2 * time.Minute
	// undoTimeout bounds the restoring of names by a Withdraw that failed, also if its ctx is done.
	undoTimeout = 5 * time.Second
	// seenTime bounds the wait until the CRI lists an image again. The CRI learns of names by
	// events, which usually takes milliseconds.
	seenTime = time.Second
	seenTick = 2 * time.Millisecond
)

// errRecordTooLong is returned for an image with a record that does not fit into a label of the
// lease.
var errRecordTooLong = errors.New("a record of the image is too long for a label")

// withdrawal is an image whose names are deleted while a lease keeps everything else. The lease
// carries the records, so that any agent that finds it can restore the names: the state of a
// withdrawal is all in containerd's own database, and as crash-proof.
type withdrawal struct {
	r              *Runtime
	imageID, chain string
	lease          leases.Lease
	records        []images.Image
}

// Withdraw deletes those names of an image that the caller knows from an inventory or
// [Runtime.Check], and keeps everything else. A name that the image has got since is kept, and
// [Runtime.Users] returns it as a user. From then on no container can be started by the deleted
// names. A client that is about to use the image either shows up as a user, or pulls the image
// again. The caller checks once more and ends the withdrawal, by Restore or by Complete. After a
// crash, [Runtime.Mend] does.
//
// If Withdraw fails, it restores the names: the error is inventory.ErrNamesBack if some may have been
// deleted, and inventory.ErrNamesAway if Mend must restore them. It is inventory.ErrNotFound if the image
// is gone, and inventory.ErrUnsupported if it cannot be withdrawn, only removed. It is
// inventory.ErrChanged if the image was pulled or pinned since, or has lost a name. It is ErrChanged,
// too, if the CRI has rewritten the image's records because of a new name (containerd 1.6, for names
// that were made without its label).
func (r *Runtime) Withdraw(ctx context.Context, i inventory.Image) (inventory.Withdrawal, error) {
	w, err := r.prepare(ctx, i)
	if err != nil {
		return nil, fmt.Errorf("withdraw image %s: %w", i.ID, err)
	}
	if err := w.takeOrUndo(ctx); err != nil {
		return nil, fmt.Errorf("withdraw image %s: %w", i.ID, err)
	}
	return w, nil
}

func (w *withdrawal) takeOrUndo(ctx context.Context) error {
	err := w.takeNames(ctx)
	if err == nil {
		return nil
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if failed := w.Restore(undo); failed != nil {
		return fmt.Errorf("%w; %w: %w", err, inventory.ErrNamesAway, failed)
	}
	return fmt.Errorf("%w; %w", err, inventory.ErrNamesBack)
}

// prepare reads the image's records, and creates the lease that carries and holds them.
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
		if end := w.end(ctx, false); end != nil {
			err = fmt.Errorf("%w; %w: %w", err, inventory.ErrNamesAway, end)
		}
		return nil, err
	}
	return w, nil
}

// recordsNow reads the records of an image by its names: for a list, containerd scans thousands of
// others. The error is inventory.ErrNotFound or inventory.ErrChanged if the image differs from
// known.
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

// hold adds the content that the records point at to the lease. The labels on it lead containerd to
// everything else: manifest, config and snapshots.
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
		// Only a name that still means this image: another image may have got it by now. containerd 1 deletes
		// it all the same. There, a moment is left in which that can happen.
		now, err := w.r.client.ImageService().Get(inCRI(ctx), i.Name)
		if err == nil && now.Target.Digest != i.Target.Digest {
			continue
		}
		err = w.r.client.ImageService().Delete(inCRI(ctx), i.Name, images.DeleteTarget(&i.Target))
		if err != nil && !errdefs.IsNotFound(err) {
			return wrap(fmt.Sprintf("take name %q away", i.Name), err)
		}
	}
	return nil
}

// Users returns what uses withdrawn images: containers that the CRI made from them, snapshots on
// their top layers in any namespace, and names, under which they were pulled again. The result is
// in the order of withdrawals.
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
				users[n] = append(users[n], inventory.NameUser+i.Name)
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

// Restore restores the deleted names that are free; a name that belongs to another image by now is
// left alone. Then Restore waits until the CRI lists the image again, for at most a second or until
// ctx is done.
func (w *withdrawal) Restore(ctx context.Context) error {
	was, err := w.putBack(ctx)
	if was.back && err == nil {
		w.r.awaitSeen(ctx, w.imageID)
	}
	return err
}

// putBack is Restore without the wait.
func (w *withdrawal) putBack(ctx context.Context) (was restored, err error) {
	ctx = inCRI(ctx)
	// After a crash, or on a full disk, the lease can lack the content that it is to hold.
	if err := w.hold(ctx); err != nil && !errdefs.IsNotFound(err) {
		return was, err
	}
	renamed := false
	for _, i := range w.records {
		if w.r.isGone(ctx, i.Target) {
			was.gone = true
			continue
		}
		_, err := w.r.client.ImageService().Create(ctx, i)
		switch {
		case err == nil:
			was.back = true
			renamed = renamed || i.Name != w.imageID
		case !errdefs.IsAlreadyExists(err):
			return was, wrap(fmt.Sprintf("put name %q of image %s back", i.Name, w.imageID), err)
		case i.Name != w.imageID: // the CRI writes that one by itself, once another is back
			there, err := w.r.client.ImageService().Get(ctx, i.Name)
			was.pulled = was.pulled || err == nil && there.Target.Digest == i.Target.Digest && updated(there).After(updated(i))
		}
	}
	// If some were free, the newer ones are of a restore that was cut short.
	was.gone, was.pulled = was.gone && !was.back, was.pulled && !renamed
	return was, w.end(ctx, false)
}

// restored is what came of a restore.
type restored struct {
	back   bool // a name was free
	pulled bool // another process has written the names while they were away
	gone   bool // the image no longer exists: a name would lead nowhere, and who needs the image would not pull it
}

// isGone reports whether the manifest or the config behind a record's target is missing. Layers may
// be missing: containerd can be configured to drop them once they are unpacked.
func (r *Runtime) isGone(ctx context.Context, target ocispec.Descriptor) bool {
	_, err := resolveContent(ctx, boundedProvider{r.client.ContentStore()}, target)
	return errdefs.IsNotFound(err)
}

// awaitSeen waits until the CRI lists images again. Without it a plan made right after would lack
// them, and remove others in their place.
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

// Complete ends the withdrawal and lets containerd collect the image. With collect it waits for a
// collection, which also covers every withdrawal completed before: each collection scans all of
// containerd's objects.
func (w *withdrawal) Complete(ctx context.Context, collect bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := w.r.removeStray(ctx, w.imageID); err != nil {
		return err
	}
	return w.end(inCRI(ctx), collect)
}

// end deletes the lease. After a restore there is nothing to collect, so the caller does not wait
// for a collection.
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

// Mend restores the names of images whose withdrawal was never ended. A crash can come at any
// moment of a withdrawal, so it is unknown whether the last check would have let the image go. Mend
// returns the IDs of the images, except for those that somebody has pulled since: they are not as they
// were. No other process may withdraw images at the same time.
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
		was, err := w.putBack(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if was.gone {
			continue
		}
		if !was.pulled {
			mended = append(mended, w.imageID)
		}
		if was.back && w.imageID != "" {
			absent = append(absent, w.imageID)
		}
	}
	r.awaitSeen(ctx, absent...)
	return mended, errors.Join(errs...)
}

// isWithdrawal reports whether a lease carries records of a withdrawn image.
func isWithdrawal(l leases.Lease) bool {
	for key := range l.Labels {
		if strings.HasPrefix(key, withdrawnLabel) {
			return true
		}
	}
	return false
}

// recordsOf returns the records that a lease carries; none if the lease is not ebb's.
func recordsOf(l leases.Lease) (records []images.Image) {
	if l.Labels[ownLabel] == "" {
		return nil
	}
	for key, text := range l.Labels {
		if !strings.HasPrefix(key, withdrawnLabel) {
			continue
		}
		var i images.Image
		// Only ebb writes them; a record that cannot be parsed cannot be restored.
		if err := json.Unmarshal([]byte(text), &i); err == nil && i.Name != "" && i.Target.Digest.Validate() == nil {
			records = append(records, i)
		}
	}
	return records
}
