package containerd

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/runtime/cri"
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
			func(ctx context.Context, s *space) error { return r.readSnapshots(ctx, s) },
			r.readUsage, r.readContents, r.readLeases, r.readSandboxes,
		} {
			if err := step(in, s); err != nil {
				return nil, err
			}
		}
	}
	if err := r.readCRIContainers(ctx, reading); err != nil {
		return nil, err
	}
	r.cache.sweep(reading.spaces)
	return reading, nil
}

// readOne looks at one image's records and users only.
func (r *Runtime) readOne(ctx context.Context, id string) (*reading, error) {
	img, err := r.cri.ImageStatus(ctx, id)
	if err != nil {
		return nil, err
	}
	reading, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	reading.images = []cri.Image{img}
	for i := range reading.spaces {
		if err := r.readImages(inNamespace(ctx, &reading.spaces[i]), &reading.spaces[i]); err != nil {
			return nil, err
		}
	}
	chain := ""
	if entries := reading.entries(); len(entries) == 1 {
		chain = entries[0].records[0].content.chain
	}
	if err := r.readCRIContainers(ctx, reading); err != nil {
		return nil, err
	}
	for i := range reading.spaces {
		s := &reading.spaces[i]
		in := inNamespace(ctx, s)
		if filters, any := userFilters(s, id, reading.criImage); any {
			if err := r.readContainersOf(in, s, filters...); err != nil {
				return nil, err
			}
		}
		if chain == "" {
			continue // no layers: nothing can stand on them
		}
		if err := r.readSnapshots(in, s, "parent=="+strconv.Quote(chain), "name=="+strconv.Quote(chain)); err != nil {
			return nil, err
		}
	}
	return reading, nil
}

func (r *Runtime) begin(ctx context.Context) (*reading, error) {
	spaces, err := r.readNamespaces(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return &reading{spaces: spaces, sandbox: r.about.sandbox, now: time.Now()}, nil
}

func (r *Runtime) readCRIContainers(ctx context.Context, reading *reading) error {
	list, err := r.cri.ListContainers(ctx)
	if err != nil {
		return err
	}
	reading.criImage = make(map[string]string, len(list))
	for _, c := range list {
		reading.criImage[c.ID] = c.ImageID
	}
	return nil
}

// userFilters selects the containers that may be made from an image: by any
// name that means it in this namespace, or by the CRI's word; any is false if
// there cannot be one. Containers that only stand on its layers are found by
// their snapshots. No filter at all selects every container.
func userFilters(s *space, id string, criImage map[string]string) (filters []string, any bool) {
	add := func(field, value string) bool {
		filters = append(filters, field+"=="+strconv.Quote(value))
		return filterable(value)
	}
	for _, rec := range s.images {
		if rec.content.id == id && !add("image", rec.name) {
			return nil, true
		}
	}
	if s.name == criNamespace {
		for container, image := range criImage {
			if image == id && !add("id", container) {
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
