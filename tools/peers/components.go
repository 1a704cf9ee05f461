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

// Names of etcd's sockets in the control plane's directory. Unix sockets are
// never taken by another, and the directory keeps strangers out, which on a
// port would take certificates.
const (
	etcdClients = "etcd.sock"
	etcdPeers   = "etcd-peers.sock"
)

// answerTimeout bounds one question whether a component is ready.
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
		// Its default of 2 GiB is soon reached by benchmarks.
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

// newAPIServer prepares an API server as kubeadm would set it up, but for what
// the loopback address and the lack of a cluster forbid.
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
		"--permit-port-sharing", // with our reservation
		// Endpoints on the loopback address are refused.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--cert-dir=" + cp.path("pki"), // else it makes one in /var/run
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
			"--audit-log-maxsize=10240") // MB, or it goes to a new file at 100
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
// arguments and others behind them. Its URL is its own; it ends with the control plane.
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

// authenticationConfig admits strangers to the health checks only.
const authenticationConfig = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions: [{path: /livez}, {path: /readyz}, {path: /healthz}]
`

// apiServerPKI writes what the API server serves, trusts and presents, and
// returns the flags for it.
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

// frontProxy makes what the API server and those behind it (aggregated API
// servers) know each other by, and returns the flags for it. It has an authority
// of its own: who has one of its certificates may claim to speak for any user.
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

// CSRCleaner is who [ControlPlane.NewCSRCleaner] is to the API server.
const CSRCleaner = "system:serviceaccount:kube-system:certificate-controller"

// NewCSRCleaner makes the kube-controller-manager's cleaner of requests a component of
// its own, which does not run yet: see kubernetes/csr-cleaner. It ends with the control
// plane.
func (cp *ControlPlane) NewCSRCleaner() (*Component, error) {
	config, err := cp.Kubeconfig(CSRCleaner)
	if err != nil {
		return nil, err
	}
	c := cp.component("csr-cleaner", []string{"--kubeconfig=" + config}, nil, func(context.Context) error { return nil })
	cp.others = append(cp.others, c)
	return c, nil
}

func (cp *ControlPlane) newScheduler() (err error) {
	cp.Scheduler, err = cp.controller("kube-scheduler", cp.config.SchedulerArgs)
	return err
}

// controller prepares what the controller manager and the scheduler have in
// common: who they are, where they serve, and that there is one of each.
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

// ask puts one question to a health check.
func ask(ctx context.Context, c *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return Request(ctx, c, http.MethodGet, url, nil, nil)
}
