package containerd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/distribution/reference"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/ebb-agent/ebb/runtime/cri"
	"github.com/ebb-agent/ebb/runtime/fs"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// readTimeout bounds a read of the whole runtime. A read of one image or layer has the same bound,
// because a busy disk slows both alike.
const readTimeout = 30 * time.Second

// snapshotterTimeout is how long one snapshotter may take to list a namespace's snapshots, or to measure one.
var snapshotterTimeout = 10 * time.Second // shorter in a test

// Runtime is a containerd with its CRI plugin, over one socket.
//
// It is safe for concurrent use. It caches what cannot change: the config digest and chain ID
// behind each target digest, and the usage of committed snapshots, both only for objects that the
// last inventory still saw.
type Runtime struct {
	client *client.Client
	conn   *grpc.ClientConn
	cri    *cri.Client
	log    *slog.Logger
	cache  cache
	exits  exits

	mu        sync.Mutex
	about     about
	broken    brokenSnapshotters   // of the latest inventory; replaced, never changed
	elsewhere map[string]string    // snapshotter → root, "" if unknown, from findElsewhere; replaced, never changed
	leases    map[string]viewLease // by namespace: the lease of ebb's views
	nonce     string               // makes the names differ from another ebb's
	viewSeq   uint64
}

// about is what only a restart of containerd can change, except sandbox.seen.
type about struct {
	version      string
	snapshotters []snapshotter
	content      string // the content store's directory; "" if unknown
	sandbox      sandboxImage
	unsure       bool // a full disk kept the CRI from reporting the sandbox image (containerd 1.7)
	sandboxes    bool // the sandbox store exists (containerd 1.7 and later)
}

// Connect connects to the containerd behind a socket. Its error wraps [ErrNoSocket], [ErrRefused],
// [ErrNotContainerd] or [ErrNoCRI] if that is the cause. Connect does not retry.
func Connect(ctx context.Context, socket string, log *slog.Logger) (*Runtime, error) {
	if err := probe(ctx, socket); err != nil {
		return nil, fmt.Errorf("connect to containerd: %w", err)
	}
	// gRPC reconnects quickly; the back-off is in Watch.
	params := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
		MinConnectTimeout: 5 * time.Second,
	}
	c, err := client.New(socket, client.WithExtraDialOpts([]grpc.DialOption{grpc.WithConnectParams(params)}))
	if err != nil {
		return nil, fmt.Errorf("connect to containerd: %w", err)
	}
	conn, ok := c.Conn().(*grpc.ClientConn)
	if !ok {
		return nil, errors.Join(errors.New("connect to containerd: the client has no gRPC connection"), c.Close())
	}
	nonce := make([]byte, 6)
	rand.Read(nonce) // never fails
	r := &Runtime{
		client: c, conn: conn, cri: cri.New(conn), log: log,
		leases: map[string]viewLease{}, nonce: hex.EncodeToString(nonce),
	}
	if err := r.identify(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to containerd: %w", err), c.Close())
	}
	return r, nil
}

// closeTimeout bounds the last calls, so that a hanging runtime does not delay the agent's exit.
const closeTimeout = time.Second

// Close deletes ebb's leases in containerd, and closes the connection. A lease that cannot be
// deleted expires.
func (r *Runtime) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	r.releaseLeases(ctx)
	return r.client.Close()
}

// Version returns the runtime's name and version, for display: "containerd 1.6.20~ds1".
func (r *Runtime) Version() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.about.version
}

// identify reads what a restart may have changed, and removes what a crashed run left.
func (r *Runtime) identify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	// Without WaitForReady this call fails if the first connection attempt fails; probe has shown
	// that something listens.
	v, err := r.client.Version(ctx)
	if err != nil {
		return diagnose(err)
	}
	name, _, err := r.cri.Version(ctx)
	if err != nil {
		return diagnoseCRI(err)
	}
	a := about{version: fmt.Sprintf("%.64s %.64s", name, v.Version), sandboxes: true}
	if a.snapshotters, err = r.listSnapshotters(ctx); err != nil {
		return err
	}
	if a.content, err = r.findContentStore(ctx); err != nil {
		return err
	}
	if a.sandbox, a.unsure, err = r.findSandboxImage(ctx, v.Version); err != nil {
		return err
	}
	r.mu.Lock()
	r.about, r.broken = a, nil
	r.mu.Unlock()
	r.releaseLeases(ctx) // a restart may have collected them
	return r.removeLeftovers(ctx)
}

// findSandboxImage finds out how to identify the sandbox image. containerd 2 no longer reports its
// name, and its verbose status first writes a file, which fails on a full disk; there ebb relies on
// the pin. containerd 1.7 writes that file, too; while that fails, the last known name is used, and
// unsure is true.
func (r *Runtime) findSandboxImage(ctx context.Context, version string) (s sandboxImage, unsure bool, err error) {
	r.mu.Lock()
	s = r.about.sandbox
	r.mu.Unlock()
	if majorVersion(version) >= 2 {
		return sandboxImage{seen: s.seen, pinned: true}, false, nil
	}
	name, err := r.cri.SandboxImage(ctx)
	if errors.Is(err, inventory.ErrNoSpace) {
		return sandboxImage{name: s.name, seen: s.seen, pinned: true}, true, nil
	}
	return sandboxImage{name: normalize(name), seen: s.seen}, false, err
}

// knownSandboxImage returns how the sandbox image is identified. It asks the CRI again if a full
// disk prevented the last answer.
func (r *Runtime) knownSandboxImage(ctx context.Context) sandboxImage {
	r.mu.Lock()
	known, unsure := r.about.sandbox, r.about.unsure
	r.mu.Unlock()
	if !unsure {
		return known
	}
	name, err := r.cri.SandboxImage(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && r.about.unsure {
		r.about.sandbox.name, r.about.sandbox.pinned, r.about.unsure = normalize(name), false, false
	}
	return r.about.sandbox
}

// seeSandboxes remembers the image of the newest sandbox, because the next one is made from it.
func (r *Runtime) seeSandboxes(spaces []space) sandboxImage {
	var newest containerRecord
	for _, s := range spaces {
		if s.name != criNamespace {
			continue
		}
		for _, c := range s.containers {
			if c.labels[labelKind] == criKindSandbox && c.image != "" && (newest.image == "" || c.created.After(newest.created)) {
				newest = c
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if newest.image != "" {
		r.about.sandbox.seen = newest.image
	}
	return r.about.sandbox
}

// normalize spells a name as the CRI does before it stores it ("pause:3" is
// docker.io/library/pause:3). A name that is no reference stays as it is.
func normalize(name string) string {
	if name == "" {
		return ""
	}
	ref, err := reference.ParseDockerRef(name)
	if err != nil {
		return name
	}
	return ref.String()
}

// majorVersion reads "v2.4.2" or "1.6.20~ds1"; 0 if it is anything else.
func majorVersion(version string) int {
	var major int
	if len(version) > 0 && version[0] == 'v' {
		version = version[1:]
	}
	if _, err := fmt.Sscanf(version, "%d.", &major); err != nil || major < 0 {
		return 0
	}
	return major
}

// Roots returns the runtime's directories: images and writable layers are in that of the
// snapshotter that the CRI uses, blobs in that of the content store.
func (r *Runtime) Roots(ctx context.Context) (inventory.Roots, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	images, containers, err := r.cri.ImageFsInfo(ctx)
	if err != nil {
		return inventory.Roots{}, err
	}
	composed := images
	images = r.snapshotterRoot(composed)
	at, err := fs.Locate(images)
	if err != nil {
		return inventory.Roots{}, fmt.Errorf("image root: %w; the agent needs it at the same path (with the chart: agent.extraVolumes and agent.extraVolumeMounts)", err)
	}
	r.findElsewhere(at.Dev, composed)
	roots := inventory.Roots{Images: images, Containers: images}
	if containers != "" {
		roots.Containers = r.snapshotterRoot(containers)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	roots.Content = r.about.content
	return roots, nil
}

// findElsewhere notes the snapshotters whose layers are on another filesystem than the images, or
// where this process cannot see them. Removing those layers frees nothing that is watched. images
// is the device number of the images' filesystem; composed is the path that the CRI reports for it.
func (r *Runtime) findElsewhere(images uint64, composed string) {
	elsewhere := make(map[string]string)
	for _, s := range r.snapshotters() {
		if pluginDir(s.name) == lastElement(composed) {
			continue // the one of the images
		}
		if at, err := fs.Locate(s.root); err != nil || at.Dev != images {
			elsewhere[s.name] = s.root
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.elsewhere = elsewhere
}

// snapshotterRoot corrects a path that containerd composes from its own root and the plugin's name.
// That path is wrong for a snapshotter configured with another root.
func (r *Runtime) snapshotterRoot(path string) string {
	for _, s := range r.snapshotters() {
		if s.root != "" && pluginDir(s.name) == lastElement(path) {
			return s.root
		}
	}
	return path
}

func (r *Runtime) snapshotters() []snapshotter {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.about.snapshotters
}

// Inventory reads the whole runtime.
func (r *Runtime) Inventory(ctx context.Context) (*inventory.Inventory, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	reading, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	return reading.inventory(), nil
}

// Check reads some images again, as fresh as possible: their names, whether they are pinned, and
// their users. Images that no longer exist are not in the result. Roots are left empty: they mean
// nothing outside a graph.
func (r *Runtime) Check(ctx context.Context, ids ...string) (map[string]inventory.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	reading, err := r.readSome(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", strings.Join(ids, ", "), err)
	}
	entries := reading.entries()
	use := reading.usage(entries)
	for i := range reading.spaces {
		use.add(&reading.spaces[i])
	}
	layers, checked := layersOf(reading.spaces), make(map[string]inventory.Image, len(entries))
	for _, e := range entries {
		checked[e.cri.ID] = reading.image(e, use, layers)
	}
	return checked, nil
}
