package peers

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Names of etcd's sockets in the control plane's directory. Another process cannot take
// a Unix socket as it can take a port. The directory keeps other users out, for which a
// port would need certificates.
const (
	etcdClients = "etcd.sock"
	etcdPeers   = "etcd-peers.sock"
)

// answerTimeout bounds one readiness check of a component.
const answerTimeout = 5 * time.Second

func (cp *ControlPlane) newEtcd() {
	clients, peers := "unix://"+cp.path(etcdClients), "unix://"+cp.path(etcdPeers)
	args := []string{
		"--name=peers",
		"--data-dir=" + cp.path("etcd"),
		"--listen-client-urls=" + clients, "--advertise-client-urls=" + clients,
		"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers,
		"--initial-cluster=peers=" + peers,
		"--log-level=warn",
		// Benchmarks soon reach the default of 2 GiB.
		"--quota-backend-bytes=8589934592",
	}
	if !cp.config.Fsync {
		args = append(args, "--unsafe-no-fsync")
	}
	client := UnixClient(cp.path(etcdClients))
	cp.Etcd = cp.component("etcd", args, cp.config.EtcdArgs, func(ctx context.Context) error {
		return ask(ctx, client, "http://etcd/health")
	})
}

// newAPIServer prepares an API server as kubeadm would, except for settings that need a
// cluster or another address than the loopback one.
func (cp *ControlPlane) newAPIServer() error {
	port, err := cp.listen()
	if err != nil {
		return err
	}
	cp.url = "https://127.0.0.1:" + port
	pki, err := cp.apiServerPKI()
	if err != nil {
		return err
	}
	args := []string{
		"--etcd-servers=unix://" + cp.path(etcdClients),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + port,
		"--permit-port-sharing", // shared with the reservation
		// The API server refuses endpoints on the loopback address.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--cert-dir=" + cp.path("pki"), // otherwise it creates one in /var/run
	}
	args = append(args, pki...)
	if !cp.config.ControllerManager {
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	if cp.config.Audit {
		policy, err := cp.writeFile("audit-policy.yaml", auditPolicy)
		if err != nil {
			return err
		}
		args = append(args, "--audit-policy-file="+policy, "--audit-log-path="+cp.AuditLog(),
			"--audit-log-maxsize=10240") // MB; by default it rotates at 100
	}
	admin, err := cp.Admin()
	if err != nil {
		return err
	}
	cp.APIServer = cp.component("kube-apiserver", args, cp.config.APIServerArgs, func(ctx context.Context) error {
		return ask(ctx, admin, cp.url+"/readyz")
	})
	cp.APIServer.url = cp.url
	return nil
}

// AddAPIServer starts another API server on the same etcd, with the first one's
// arguments followed by args. It has its own URL, and ends with the control plane.
func (cp *ControlPlane) AddAPIServer(ctx context.Context, args ...string) (*Component, error) {
	port, err := cp.listen()
	if err != nil {
		return nil, err
	}
	admin, err := cp.Admin()
	if err != nil {
		return nil, err
	}
	url := "https://127.0.0.1:" + port
	own := append(slices.Clone(cp.APIServer.args), "--secure-port="+port)
	c := cp.component("kube-apiserver", own, args, func(ctx context.Context) error {
		return ask(ctx, admin, url+"/readyz")
	})
	c.url = url
	cp.mu.Lock()
	cp.others = append(cp.others, c)
	c.logFile = cp.path("logs", fmt.Sprintf("kube-apiserver-%d.log", len(cp.others)+1))
	cp.mu.Unlock()
	return c, c.Start(ctx)
}

// authenticationConfig admits anonymous requests to the health checks only.
const authenticationConfig = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions: [{path: /livez}, {path: /readyz}, {path: /healthz}]
`

// apiServerPKI writes the keys and certificates that the API server serves, trusts and
// presents, and returns the flags for them.
func (cp *ControlPlane) apiServerPKI() ([]string, error) {
	serving, err := cp.ca.Server("kube-apiserver", "kubernetes", "kubernetes.default.svc")
	if err != nil {
		return nil, err
	}
	server, err := serving.Write(cp.path("pki"), "apiserver")
	if err != nil {
		return nil, err
	}
	proxy, err := cp.frontProxy()
	if err != nil {
		return nil, err
	}
	authentication, err := cp.writeFile("authentication.yaml", authenticationConfig)
	if err != nil {
		return nil, err
	}
	key, err := cp.serviceAccountKey()
	if err != nil {
		return nil, err
	}
	return append(proxy,
		"--tls-cert-file="+server.Cert, "--tls-private-key-file="+server.Key,
		"--client-ca-file="+server.CA, "--authentication-config="+authentication,
		"--service-account-key-file="+key, "--service-account-signing-key-file="+key,
	), nil
}

// frontProxy makes the certificates by which the API server and aggregated API servers
// know each other, and returns the flags for them. They have an authority of their own,
// because a client with such a certificate may act as any user.
func (cp *ControlPlane) frontProxy() ([]string, error) {
	front, err := NewAuthority("peers-front-proxy")
	if err != nil {
		return nil, err
	}
	creds, err := front.Client(User{Name: "front-proxy-client"})
	if err != nil {
		return nil, err
	}
	proxy, err := creds.Write(cp.path("pki"), "front-proxy-client")
	if err != nil {
		return nil, err
	}
	return []string{
		"--requestheader-client-ca-file=" + proxy.CA, "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + proxy.Cert, "--proxy-client-key-file=" + proxy.Key,
	}, nil
}

func (cp *ControlPlane) serviceAccountKey() (string, error) {
	_, key, err := newKey()
	if err != nil {
		return "", fmt.Errorf("make key of service accounts: %w", err)
	}
	return cp.writeFile("service-accounts.key", string(key))
}

func (cp *ControlPlane) newControllerManager() (err error) {
	cp.ControllerManager, err = cp.controller("kube-controller-manager", cp.config.ControllerManagerArgs,
		"--use-service-account-credentials",
		"--service-account-private-key-file="+cp.path("pki", "service-accounts.key"),
		"--root-ca-file="+cp.path("pki", "apiserver-ca.crt"))
	return err
}

// CSRCleaner is the user as which the component of [ControlPlane.NewCSRCleaner]
// authenticates.
const CSRCleaner = "system:serviceaccount:kube-system:certificate-controller"

// NewCSRCleaner makes the kube-controller-manager's CSR cleaner a component of its own,
// which is not started yet: see kubernetes/csr-cleaner. It ends with the control plane.
func (cp *ControlPlane) NewCSRCleaner() (*Component, error) {
	config, err := cp.Kubeconfig(CSRCleaner)
	if err != nil {
		return nil, err
	}
	c := cp.component("csr-cleaner", []string{"--kubeconfig=" + config}, nil, func(context.Context) error { return nil })
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.others = append(cp.others, c)
	return c, nil
}

func (cp *ControlPlane) newScheduler() (err error) {
	cp.Scheduler, err = cp.controller("kube-scheduler", cp.config.SchedulerArgs)
	return err
}

// controller prepares what the controller manager and the scheduler share: identity,
// serving certificate and port, and no leader election.
func (cp *ControlPlane) controller(name string, extra []string, own ...string) (*Component, error) {
	config, err := cp.Kubeconfig("system:" + name)
	if err != nil {
		return nil, err
	}
	serving, err := cp.ca.Server(name)
	if err != nil {
		return nil, err
	}
	server, err := serving.Write(cp.path("pki"), name)
	if err != nil {
		return nil, err
	}
	port, err := cp.listen()
	if err != nil {
		return nil, err
	}
	admin, err := cp.Admin()
	if err != nil {
		return nil, err
	}
	args := append([]string{
		"--kubeconfig=" + config, "--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config,
		"--bind-address=127.0.0.1", "--secure-port=" + port, "--permit-port-sharing",
		"--tls-cert-file=" + server.Cert, "--tls-private-key-file=" + server.Key,
		"--leader-elect=false",
	}, own...)
	url := "https://127.0.0.1:" + port
	c := cp.component(name, args, extra, func(ctx context.Context) error { return ask(ctx, admin, url+"/healthz") })
	c.url = url
	return c, nil
}

func (cp *ControlPlane) writeFile(name, text string) (string, error) {
	path := filepath.Join(cp.path("pki"), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return path, nil
}

// ask requests a health check once.
func ask(ctx context.Context, c *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return Request(ctx, c, http.MethodGet, url, nil, nil)
}
