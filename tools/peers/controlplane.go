package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/ebb-agent/ebb/tools/owned"
)

// Config describes a control plane. The zero value of each field has a meaning; the
// zero Config is etcd and an API server.
type Config struct {
	// Name identifies a control plane in its base directory: letters, digits, ".", "_"
	// and "-", at most 32. Default "control-plane".
	Name string

	// Base is the directory that holds control planes. Default BaseDir().
	Base string

	// Binaries is the directory that holds the binaries. Default $EBB_PEERS, or the
	// output of tools/peers/build.
	Binaries string

	// ControllerManager and Scheduler say whether these run, too. Without a controller
	// manager no ServiceAccounts are created, so the API server then accepts pods
	// without one.
	ControllerManager, Scheduler bool

	// Further arguments, placed behind the package's own. For a flag with one value,
	// the last one applies.
	EtcdArgs, APIServerArgs, ControllerManagerArgs, SchedulerArgs []string

	// Audit makes the API server record every finished request; see ReadAudit.
	Audit bool

	// Fsync makes etcd wait for the disk, as a real one does. Without it, only a crash
	// of the machine loses data.
	Fsync bool

	// Log receives a line for each step; nil discards it.
	Log io.Writer
}

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)

// maxSocketPath is the size of sun_path without its terminating zero, in bytes.
const maxSocketPath = 107

func (c Config) complete() (Config, error) {
	c.Name = cmp.Or(c.Name, "control-plane")
	c.Base = cmp.Or(c.Base, BaseDir())
	c.Log = cmp.Or(c.Log, io.Discard)
	var errs []error
	if !validName.MatchString(c.Name) {
		errs = append(errs, fmt.Errorf("name %q: want %s", c.Name, validName))
	}
	// The path is part of URLs and of comma-separated flags.
	if !filepath.IsAbs(c.Base) || filepath.Clean(c.Base) != c.Base || strings.ContainsAny(c.Base, ",=?#%\" \n") {
		errs = append(errs, fmt.Errorf("base %q: want a clean absolute path of plain letters", c.Base))
	}
	if p := filepath.Join(c.Base, c.Name, etcdClients); len(p) > maxSocketPath {
		errs = append(errs, fmt.Errorf("socket path %q: longer than %d bytes", p, maxSocketPath))
	}
	return c, errors.Join(errs...)
}

// ControlPlane is a throwaway control plane, owned by this process.
type ControlPlane struct {
	// Etcd and APIServer are always set; the others are nil unless Config asks for
	// them.
	Etcd, APIServer, ControllerManager, Scheduler *Component

	others []*Component // further API servers, and their clients

	config   Config
	binaries string
	dir      string
	log      *slog.Logger
	ca       *Authority
	lock     *os.File
	clients  clients // closed with the control plane
	ports    []*reservation

	// URL of the API server, without a slash at its end.
	url string

	mu     sync.Mutex
	closed bool
}

// StartControlPlane starts a control plane on the loopback address and returns once
// each component is ready. It first removes a control plane of the same name that a
// dead process left behind. The caller must Close it. If the caller dies, the kernel
// kills the components, and Clean removes the rest.
func StartControlPlane(ctx context.Context, c Config) (*ControlPlane, error) {
	c, err := c.complete()
	if err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	cp := &ControlPlane{
		config: c,
		dir:    filepath.Join(c.Base, c.Name),
		log:    slog.New(slog.NewTextHandler(c.Log, nil)).With("controlPlane", c.Name),
	}
	// Before the lock: building the binaries may take minutes, and does not touch the
	// control plane.
	if cp.binaries, err = findBinaries(ctx, c.Binaries, c.Log, c.names()...); err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	if cp.lock, err = owned.Claim(cp.dir, nothing); err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	if err := cp.build(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start control plane: %w", err), cp.Close())
	}
	return cp, nil
}

func (c Config) names() []string {
	names := []string{"etcd", "kube-apiserver"}
	if c.ControllerManager {
		names = append(names, "kube-controller-manager")
	}
	if c.Scheduler {
		names = append(names, "kube-scheduler")
	}
	return names
}

// build makes and starts the components, each when the one it needs is ready. The
// controller manager and the scheduler need only the API server.
func (cp *ControlPlane) build(ctx context.Context) error {
	if err := os.Chmod(cp.dir, 0o700); err != nil {
		return fmt.Errorf("keep others out: %w", err)
	}
	for _, dir := range []string{"pki", "logs", "kubeconfigs"} {
		if err := os.MkdirAll(cp.path(dir), 0o700); err != nil {
			return fmt.Errorf("make directories: %w", err)
		}
	}
	var err error
	if cp.ca, err = NewAuthority("peers-" + cp.config.Name); err != nil {
		return err
	}
	cp.newEtcd()
	if err := cp.newAPIServer(); err != nil {
		return err
	}
	for _, c := range []*Component{cp.Etcd, cp.APIServer} {
		if err := c.Start(ctx); err != nil {
			return err
		}
	}
	if cp.config.ControllerManager {
		if err := cp.newControllerManager(); err != nil {
			return err
		}
	}
	if cp.config.Scheduler {
		if err := cp.newScheduler(); err != nil {
			return err
		}
	}
	var group errgroup.Group
	for _, c := range []*Component{cp.ControllerManager, cp.Scheduler} {
		if c != nil {
			group.Go(func() error { return c.Start(ctx) })
		}
	}
	return group.Wait()
}

func (cp *ControlPlane) path(elem ...string) string {
	return filepath.Join(append([]string{cp.dir}, elem...)...)
}

// component fills in the fields that all components share.
func (cp *ControlPlane) component(name string, args, extra []string, ready func(context.Context) error) *Component {
	return &Component{
		name: name, binary: filepath.Join(cp.binaries, name), args: args, extra: extra,
		logFile: cp.path("logs", name+".log"), log: cp.log, inherit: cp.lock, ready: ready,
	}
}

// Dir is the directory that holds all files of the control plane.
func (cp *ControlPlane) Dir() string { return cp.dir }

// URL is the API server's URL, without a slash at its end. It does not change over
// restarts.
func (cp *ControlPlane) URL() string { return cp.url }

// Address is the host and port of the URL.
func (cp *ControlPlane) Address() string { return strings.TrimPrefix(cp.url, "https://") }

// Authority signs for clients and servers; the API server trusts it.
func (cp *ControlPlane) Authority() *Authority { return cp.ca }

// EtcdSocket is the Unix socket on which etcd serves clients, without TLS.
func (cp *ControlPlane) EtcdSocket() string { return cp.path(etcdClients) }

// EtcdDir holds etcd's data: while etcd is stopped, a copy of it is a backup.
func (cp *ControlPlane) EtcdDir() string { return cp.path("etcd") }

// Kubeconfig writes a kubeconfig for a user with a client certificate, and returns its
// path. The group system:masters has all rights, but is also exempt from priority and
// fairness.
func (cp *ControlPlane) Kubeconfig(user string, groups ...string) (string, error) {
	creds, err := cp.ca.Client(User{Name: user, Groups: groups})
	if err != nil {
		return "", err
	}
	return cp.writeKubeconfig(certificateUser(creds))
}

// ServiceAccountKubeconfig writes a kubeconfig for an existing service account, with a
// token for an hour, and returns its path.
func (cp *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	admin, err := cp.Admin()
	if err != nil {
		return "", err
	}
	var answer struct{ Status struct{ Token string } }
	request := map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
		"spec": map[string]any{"expirationSeconds": 3600},
	}
	url := cp.url + "/api/v1/namespaces/" + namespace + "/serviceaccounts/" + name + "/token"
	if err := Request(ctx, admin, http.MethodPost, url, request, &answer); err != nil {
		return "", fmt.Errorf("get token of service account: %w", err)
	}
	return cp.TokenKubeconfig(answer.Status.Token)
}

// TokenKubeconfig writes a kubeconfig with a token, such as a service account's, and
// returns its path.
func (cp *ControlPlane) TokenKubeconfig(token string) (string, error) {
	return cp.writeKubeconfig(&clientcmdapi.AuthInfo{Token: token})
}

func (cp *ControlPlane) writeKubeconfig(user *clientcmdapi.AuthInfo) (string, error) {
	f, err := os.CreateTemp(cp.path("kubeconfigs"), "*.yaml")
	if err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	if err := f.Close(); err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	return f.Name(), writeKubeconfig(f.Name(), cp.url, cp.ca.PEM(), user)
}

// Client returns an HTTP client that acts as a user at the API server. Close closes it.
func (cp *ControlPlane) Client(user string, groups ...string) (*http.Client, error) {
	return cp.clients.add(cp.ca, user, groups...)
}

// Admin returns a Client with all rights.
func (cp *ControlPlane) Admin() (*http.Client, error) {
	return cp.Client("peers-admin", "system:masters")
}

// listen reserves a port for a component and returns it.
func (cp *ControlPlane) listen() (port string, err error) {
	r, err := reservePort()
	if err != nil {
		return "", err
	}
	cp.ports = append(cp.ports, r)
	return fmt.Sprint(r.port), nil
}

// Close kills the components and deletes everything of the control plane. Closing twice
// is harmless.
func (cp *ControlPlane) Close() error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.closed {
		return nil
	}
	cp.closed = true
	var errs []error
	// Clients end before their servers: an API server that loses its etcd first is slow
	// to end.
	for _, c := range append(cp.others, cp.Scheduler, cp.ControllerManager, cp.APIServer, cp.Etcd) {
		if c != nil {
			errs = append(errs, c.Kill())
		}
	}
	cp.clients.close()
	for _, r := range cp.ports {
		errs = append(errs, r.release())
	}
	return errors.Join(append(errs, owned.Remove(cp.dir, nothing), cp.lock.Close())...)
}

// UnixClient returns an HTTP client of a server on a Unix socket. The host in its URLs
// is ignored.
func UnixClient(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
}
