package containerd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/cri"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// read reads everything, with one list call per kind and namespace.
func (r *Runtime) read(ctx context.Context) (*reading, error) {
	reading, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	if reading.images, err = r.cri.ListImages(ctx); err != nil {
		return nil, err
	}
	// Users are read after the images: a listed image then has all its users, unless it was just
	// pulled.
	for i := range reading.spaces {
		s := &reading.spaces[i]
		in := inNamespace(ctx, s)
		for _, step := range []func(context.Context, *space) error{
			r.readImages,
			func(ctx context.Context, s *space) error { return r.readContainersOf(ctx, s) },
			func(ctx context.Context, s *space) error { return r.readSnapshots(ctx, s, reading.broken) },
			func(ctx context.Context, s *space) error { return r.readUsage(ctx, s, reading.broken) },
			r.readContents, r.readLeases, r.readIngests, r.readSandboxes,
		} {
			if err := step(in, s); err != nil {
				return nil, err
			}
		}
	}
	if err := r.readCRIContainers(ctx, reading); err != nil {
		return nil, err
	}
	r.readEnds(ctx, reading)
	reading.unwatched = r.noteElsewhere(reading.spaces)
	reading.sandbox = r.seeSandboxes(reading.spaces)
	r.cache.sweep(reading.spaces, reading.broken)
	r.mu.Lock()
	r.broken = reading.broken
	r.mu.Unlock()
	return reading, nil
}

// readSome reads the records and users of some images only. Images that no longer exist are not in
// the result.
func (r *Runtime) readSome(ctx context.Context, ids []string) (*reading, error) {
	var found []cri.Image
	for _, id := range ids {
		img, err := r.cri.ImageStatus(ctx, id)
		if errors.Is(err, inventory.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, img)
	}
	reading, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	reading.images = found
	// Two lists for all images, at the same time: for each list, containerd scans all its objects.
	// A new snapshot on an image can be missed; [Runtime.Users] checks again once the image cannot
	// get new users.
	chains := r.cache.chainsOf(ids)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.readStanding(gctx, reading.spaces, chains) })
	g.Go(func() error { return r.readNamed(gctx, reading, ids) })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if now := reading.chains(); !maps.Equal(now, chains) { // a chain was not in the cache, or has changed
		if err := r.readStanding(ctx, reading.spaces, now); err != nil {
			return nil, err
		}
	}
	for i := range reading.spaces {
		s := &reading.spaces[i]
		if filters, any := userFilters(s, ids, reading.criImage); any {
			if err := r.readContainersOf(inNamespace(ctx, s), s, filters...); err != nil {
				return nil, err
			}
		}
	}
	return reading, nil
}

// readNamed reads the names of images, and the CRI's containers.
func (r *Runtime) readNamed(ctx context.Context, reading *reading, ids []string) error {
	for i := range reading.spaces {
		s := &reading.spaces[i]
		in := inNamespace(ctx, s)
		list, err := r.imagesOf(in, ids...)
		if err != nil {
			return err
		}
		s.images = r.imageRecords(in, list)
	}
	return r.readCRIContainers(ctx, reading)
}

// readStanding reads the top layers of images and the snapshots that have one as parent, in every
// namespace. It skips snapshotters that the latest inventory found broken: images that may be
// unpacked there are kept.
func (r *Runtime) readStanding(ctx context.Context, spaces []space, chains map[string]bool) error {
	if len(chains) == 0 {
		return nil // an image without layers has no snapshots
	}
	var on []string
	for chain := range chains {
		on = append(on, "parent=="+strconv.Quote(chain), "name=="+strconv.Quote(chain))
	}
	r.mu.Lock()
	known := r.broken
	r.mu.Unlock()
	broken := make(brokenSnapshotters)
	maps.Copy(broken, known)
	for i := range spaces {
		spaces[i].snapshots = nil
		err := r.readSnapshots(inNamespace(ctx, &spaces[i]), &spaces[i], broken, on...)
		if err == nil && len(broken) > len(known) {
			err = broken.err() // which images are unpacked there is not known yet
		}
		if err != nil {
			return fmt.Errorf("%w: %w", inventory.ErrStale, err)
		}
	}
	return nil
}

// chains returns the chain IDs of the images' top layers.
func (r *reading) chains() map[string]bool {
	chains := map[string]bool{}
	for _, e := range r.entries() {
		if chain := e.records[0].content.chain; chain != "" {
			chains[chain] = true
		}
	}
	return chains
}

func (r *Runtime) begin(ctx context.Context) (*reading, error) {
	spaces, err := r.readNamespaces(ctx)
	if err != nil {
		return nil, err
	}
	return &reading{spaces: spaces, sandbox: r.knownSandboxImage(ctx), now: time.Now(), broken: make(brokenSnapshotters)}, nil
}

func (r *Runtime) readCRIContainers(ctx context.Context, reading *reading) error {
	list, err := r.cri.ListContainers(ctx)
	if err != nil {
		return err
	}
	reading.criImage, reading.criState = make(map[string]string, len(list)), make(map[string]container.State, len(list))
	for _, c := range list {
		reading.criImage[c.ID], reading.criState[c.ID] = c.ImageID, c.State
	}
	return nil
}

// userFilters returns filters for the containers that may be made from images. They select by the
// images' names in this namespace, and by the IDs of containers that the CRI lists with one of the
// images. any is false if there cannot be such a container. Containers that only have a snapshot on
// the images' layers are found by their snapshots. If any is true and there are no filters, every
// container is selected.
func userFilters(s *space, ids []string, criImage map[string]string) (filters []string, any bool) {
	add := func(field, value string) bool {
		filters = append(filters, field+"=="+strconv.Quote(value))
		return filterable(value)
	}
	for _, rec := range s.images {
		if slices.Contains(ids, rec.content.id) && !add("image", rec.name) {
			return nil, true
		}
	}
	if s.name == criNamespace {
		for container, image := range criImage {
			if slices.Contains(ids, image) && !add("id", container) {
				return nil, true
			}
		}
	}
	return filters, len(filters) > 0
}

// filterable reports whether a value is safe in containerd's filter language. No valid reference or
// container ID contains other characters.
func filterable(value string) bool {
	return value != "" && !strings.ContainsFunc(value, func(c rune) bool {
		return c <= ' ' || c > '~' || c == '"' || c == '\\'
	})
}
