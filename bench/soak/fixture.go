package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/bench/soak/oracle"
	"github.com/ebb-agent/ebb/bench/soak/plan"
	"github.com/ebb-agent/ebb/tools/csi"
	"github.com/ebb-agent/ebb/tools/extension"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/socketrelay"
)

// fixture is etcd, two API servers, the controllers of namespaces and of PersistentVolumes, a CSI driver
// and two ebb-controllers.
type fixture struct {
	options
	dir         string // of logs, which are kept when something is wrong
	cp          *peers.ControlPlane
	second      *peers.Component
	client      *client
	watcher     *watcher
	oracle      *oracle.Oracle
	outages     outages // of processes and connections
	hidden      outages // of the extension server, which hide objects
	driver      *driver
	log         *os.File
	webhook     *webhook
	controllers []*controller
	extension   *extension.Server
	announced   object      // the APIService of the extension server
	outside     chan func() // each judges a change there
	judging     sync.WaitGroup
	reported    int // violations that were reported
	backups     []string

	failure func(error) // ends the soak
}

func (b *fixture) apiServers() []*peers.Component {
	return []*peers.Component{b.cp.APIServer, b.second}
}

// newFixture starts all but the controllers.
func newFixture(ctx context.Context, o options, failure func(error)) (_ *fixture, err error) {
	b := &fixture{options: o, failure: failure}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.dir, err = os.MkdirTemp("", "ebb-soak-"); err != nil {
		return b, err
	}
	if b.log, err = os.Create(filepath.Join(b.dir, "operations.log")); err != nil {
		return b, err
	}
	// Objects are stored as JSON, so that the oracle needs no code of Kubernetes.
	if b.cp, err = peers.StartControlPlane(ctx, peers.Config{Name: fmt.Sprintf("soak-%d", os.Getpid()), Audit: true, ControllerManager: true,
		APIServerArgs:         []string{"--storage-media-type=application/json", "--disable-admission-plugins=ServiceAccount"},
		ControllerManagerArgs: []string{"--controllers=namespace-controller,persistentvolume-protection-controller", "--kube-api-qps=500", "--kube-api-burst=500"}}); err != nil {
		return b, err
	}
	if b.second, err = b.cp.AddAPIServer(ctx, append([]string{"--storage-media-type=application/json", "--disable-admission-plugins=ServiceAccount"},
		"--audit-log-path="+b.secondAudit())...); err != nil {
		return b, err
	}
	admin, err := b.cp.Admin()
	if err != nil {
		return b, err
	}
	b.client = &client{http: admin, urls: []string{b.cp.URL(), b.second.URL()}}
	if b.webhook, err = newWebhook(b.cp); err != nil {
		return b, err
	}
	kinds := known(o.definitions)
	b.oracle = oracle.New(oracle.Config{Kinds: kinds, Judged: ours(kinds), Outside: elsewhere, Race: 30 * time.Second, Unseen: b.unseen})
	b.watcher = &watcher{etcd: &etcd{peers.UnixClient(b.cp.EtcdSocket())}, oracle: b.oracle, failed: failure, ctx: ctx}
	b.driver = newDriver(b.client, b.oracle, b.log)
	b.driver.certificate = b.cp.Authority().PEM()
	if b.driver.volumes, err = csi.Start(csi.Config{Name: oracle.Driver, Socket: b.driverSocket(), Root: filepath.Join(b.dir, "volumes")}); err != nil {
		return b, err
	}
	if err := b.watcher.begin(); err != nil {
		return b, err
	}
	return b, b.extend(ctx)
}

func (b *fixture) secondAudit() string { return filepath.Join(b.cp.Dir(), "logs", "audit-2.log") }

// ours returns a function that reports whether only the soak makes an object.
func ours(kinds map[oracle.Kind]bool) func(*oracle.Object) bool {
	return func(x *oracle.Object) bool {
		_, made := kinds[oracle.Kind{APIVersion: x.APIVersion, Kind: x.Kind}]
		return made && x.Kind != "Namespace" && (strings.HasPrefix(x.Namespace, "soak-") || (x.Namespace == "" || x.Namespace == "kube-node-lease") && strings.HasPrefix(x.Name, "soak-"))
	}
}

// unseen reports whether the controllers may not have seen an object. They may not have seen an
// object that its server hides, however old it is: a new leader has never received it.
func (b *fixture) unseen(x *oracle.Object, written, now time.Time) bool {
	return b.outages.unseen(written, now) || x.Outside && b.hidden.lately(now)
}

// elsewhere reports whether the extension server serves a type.
func elsewhere(k oracle.Kind) bool { return k.Kind == "Thing" }

// known returns the versions that are served at least now and then, and whether their objects have
// namespaces.
func known(definitions int) map[oracle.Kind]bool {
	kinds := map[oracle.Kind]bool{{APIVersion: "v1", Kind: "ServiceAccount"}: true, {APIVersion: "v1", Kind: "Namespace"}: false}
	for _, k := range plan.Kinds(definitions) {
		for v := range k.Versions {
			kinds[oracle.Kind{APIVersion: k.APIVersion(v), Kind: k.Kind}] = k.Namespaced
		}
	}
	return kinds
}

func (b *fixture) close() error {
	var errs []error
	if b.watcher != nil && b.watcher.stop != nil {
		b.watcher.stop()
	}
	for _, c := range b.controllers {
		errs = append(errs, c.relay.Close())
	}
	if b.extension != nil {
		b.extension.Close()
	}
	b.judging.Wait()
	if b.driver != nil && b.driver.volumes != nil {
		b.driver.volumes.Stop()
	}
	if b.webhook != nil {
		b.webhook.server.Close()
	}
	if b.cp != nil {
		errs = append(errs, b.cp.Close())
	}
	if b.log != nil {
		errs = append(errs, b.log.Close())
	}
	for _, dir := range append(b.backups, b.dir) {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// populate creates definitions, namespaces and the first objects.
func (b *fixture) populate(ctx context.Context, g *plan.Generator) error {
	for _, file := range []string{"00-namespace.yaml", "enforce/controller-rbac.yaml", "controller/flowschema.yaml"} {
		if err := b.cp.Apply(ctx, filepath.Join(b.deploy, file)); err != nil {
			return err
		}
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, name := range g.Spaces() {
		group.Go(func() error {
			return b.client.insist(inner, http.MethodPost, "/api/v1/namespaces", object{"metadata": object{"name": name}}, nil)
		})
	}
	for _, k := range g.Kinds() {
		if k.Custom {
			group.Go(func() error { return b.driver.define(inner, k) })
		}
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("make definitions: %w", err)
	}
	for _, op := range g.Population(b.objects) {
		b.driver.start(ctx, op)
	}
	b.driver.group.Wait()
	if err := b.writeInventory(); err != nil {
		return err
	}
	if left := b.driver.ended("refused") + b.driver.ended("given up"); left > 0 {
		return fmt.Errorf("make objects: %d were refused; see %s", left, b.log.Name())
	}
	return ctx.Err()
}

func (d *driver) ended(how string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done[how]
}

// startControllers runs two controllers until ctx ends, the second one with a wrong clock. It waits
// until the leader has read everything.
func (b *fixture) startControllers(ctx context.Context, group *sync.WaitGroup, offset time.Duration) error {
	token, err := b.token(ctx)
	if err != nil {
		return err
	}
	config, err := b.cp.TokenKubeconfig(token)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	for i := range 2 {
		c := &controller{name: fmt.Sprintf("ebb-controller-%d", i+1), binary: b.controller, dir: b.dir, inventory: b.inventoryFile(), driver: b.driverSocket()}
		c.kubeconfig = c.file("kubeconfig")
		if i == 1 {
			c.offset = offset
		}
		if c.relay, err = socketrelay.StartTCP(b.cp.Address(), strings.TrimPrefix(b.second.URL(), "https://")); err != nil {
			return err
		}
		b.controllers = append(b.controllers, c)
		if err := os.WriteFile(c.kubeconfig, []byte(c.relay.In(string(text))), 0o600); err != nil {
			return err
		}
		group.Go(func() {
			if err := c.run(ctx); err != nil {
				b.failure(err)
			}
		})
	}
	ready, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("no controller gets ready"))
	defer cancel()
	return poll(ready, func() (bool, error) {
		c, err := leader(ready, b.controllers)
		if err != nil {
			return false, nil
		}
		text, err := c.state(ready)
		return err == nil && strings.HasPrefix(text, "ok"), nil
	})
}

// token returns a token of the controllers' service account that is valid for longer than the soak.
func (b *fixture) token(ctx context.Context) (string, error) {
	var answer struct{ Status struct{ Token string } }
	err := b.client.insist(ctx, http.MethodPost, "/api/v1/namespaces/ebb-system/serviceaccounts/ebb-controller/token", object{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{"expirationSeconds": int((b.soak + 2*time.Hour).Seconds())}}, &answer)
	return answer.Status.Token, err
}
