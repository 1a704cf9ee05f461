package containerd

import (
	"context"
	"fmt"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
)

// Remove removes an image with all names that it has when Remove is called, and returns when
// containerd has collected what nothing else keeps. A missing image is not an error. A name that is
// created later is not removed, and keeps the image: it is wanted again.
func (r *Runtime) Remove(ctx context.Context, imageID string) error {
	before, err := r.namesOf(ctx, imageID)
	if err != nil {
		return fmt.Errorf("remove image %s: %w", imageID, err)
	}
	if err := r.cri.RemoveImage(ctx, imageID); err != nil {
		return r.collectAgain(ctx, imageID, err)
	}
	return r.removeNames(ctx, imageID, before)
}

// collectTries is how often a collection that found no room is tried again.
const collectTries = 10

// collectAgain handles a failed removal. On a full disk the image's names can be deleted although
// the collection after that found no room. containerd's database is a sparse file, in which a page
// takes a block once it is written. Each transaction writes other pages, some of which have a block
// already. So collectAgain triggers the collection again, by creating and deleting a lease.
func (r *Runtime) collectAgain(ctx context.Context, imageID string, failed error) error {
	if names, err := r.namesOf(ctx, imageID); err != nil || len(names) > 0 {
		return failed
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	ctx = inCRI(ctx)
	manager := r.client.LeasesService()
	for range collectTries {
		lease, err := manager.Create(ctx, leases.WithRandomID(), leases.WithExpiration(endTimeout))
		if err != nil {
			continue
		}
		if err := manager.Delete(ctx, lease, leases.SynchronousDelete); err == nil {
			return nil
		}
	}
	return failed
}

// namesOf returns the image's names in the CRI's namespace.
func (r *Runtime) namesOf(ctx context.Context, imageID string) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	list, err := r.imagesOf(inCRI(ctx), imageID)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, i := range list {
		names[i.Name] = true
	}
	return names, nil
}

// removeNames deletes the names in before that still exist. The CRI learns of names by events, and
// removes only those that it knows. A name that was created a moment ago survives, and keeps the
// whole image.
func (r *Runtime) removeNames(ctx context.Context, imageID string, before map[string]bool) error {
	now, err := r.namesOf(ctx, imageID)
	if err != nil {
		return fmt.Errorf("remove image %s: %w", imageID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	ctx = inCRI(ctx)
	for name := range now {
		if !before[name] {
			continue
		}
		err := r.client.ImageService().Delete(ctx, name, images.SynchronousDelete())
		if err != nil && !errdefs.IsNotFound(err) {
			return wrap(fmt.Sprintf("remove name %q of image %s", name, imageID), err)
		}
	}
	return r.removeStray(ctx, imageID)
}

// removeStray deletes the name that equals the image's ID, if the image has no other. The CRI gives
// that name to every image that it receives an event about. It may do so while the other names are
// being deleted, because the event about a new name comes late.
func (r *Runtime) removeStray(ctx context.Context, imageID string) error {
	if _, err := r.client.ImageService().Get(inCRI(ctx), imageID); errdefs.IsNotFound(err) {
		return nil // nearly always, and cheaper than a list of thousands
	}
	names, err := r.namesOf(ctx, imageID)
	if err != nil {
		return fmt.Errorf("remove image %s: %w", imageID, err)
	}
	if len(names) != 1 || !names[imageID] {
		return nil
	}
	ctx = inCRI(ctx)
	err = r.client.ImageService().Delete(ctx, imageID, images.SynchronousDelete())
	if err != nil && !errdefs.IsNotFound(err) {
		return wrap("remove the name that the CRI has given to image "+imageID, err)
	}
	return nil
}
