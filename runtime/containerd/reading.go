package containerd

import (
	"context"
	"errors"
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

// read looks at everything, with one list call per kind and namespace.
func (r *Runtime) read(ctx context.Context) (*reading, error) {
	reading, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	if reading.images, err = r.cri.ListImages(ctx); err != nil {
		return nil, err
	}
	// Users are read after the images, so that an image that is there, and was
	// not just pulled, does not lack its users.
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
	r.noteElsewhere(reading.spaces)
	reading.sandbox = r.seeSandboxes(reading.spaces)
	r.cache.sweep(reading.spaces)
	r.mu.Lock()
	r.broken = reading.broken
	r.mu.Unlock()
	return reading, nil
}

// readSome looks at the records and users of some images only. Those that are gone are
// not in it.
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
	// Two lists for all images, at the same time: for each, containerd goes through all that it
	// has. What comes to stand on an image meanwhile can be missed; [Runtime.Users] looks again
	// once the image cannot be used anew.
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

// readNamed reads what images are called, and the CRI's containers.
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

// readStanding reads the top layers of images and what stands on them, in every namespace. Snapshotters
// that the latest inventory found broken are left out: images that may be unpacked there stay.
func (r *Runtime) readStanding(ctx context.Context, spaces []space, chains map[string]bool) error {
	if len(chains) == 0 {
		return nil // nothing can stand on an image without layers
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
			err = broken.err() // what is unpacked there is not known yet
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// chains are the top layers of the images, for what stands on which.
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

// userFilters selects the containers that may be made from images: by any
// name that means one of them in this namespace, or by the CRI's word; any is false if
// there cannot be one. Containers that only stand on their layers are found by
// their snapshots. No filter at all selects every container.
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

// filterable tells whether a value surely survives containerd's filter
// language. No valid reference or container ID contains anything else.
func filterable(value string) bool {
	return value != "" && !strings.ContainsFunc(value, func(c rune) bool {
		return c <= ' ' || c > '~' || c == '"' || c == '\\'
	})
}
