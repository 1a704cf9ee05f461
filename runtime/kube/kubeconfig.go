package kube

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// serviceAccount is where a pod finds the credentials of its service account.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// inCluster returns how a pod reaches the API server. dir has the credentials of the service
// account.
func inCluster(dir string) (access, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return access{}, errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: outside a pod, give a kubeconfig")
	}
	return access{
		url:       "https://" + net.JoinHostPort(host, port),
		caFile:    filepath.Join(dir, "ca.crt"),
		tokenFile: filepath.Join(dir, "token"),
	}, nil
}

// kubeconfig has the supported fields of the format. It also has the unsupported fields that
// would change the identity or the server; a file that sets one of those is refused.
type kubeconfig struct {
	CurrentContext string `json:"current-context"`

	Contexts []struct {
		Name    string `json:"name"`
		Context struct {
			Cluster string `json:"cluster"`
			User    string `json:"user"`
		} `json:"context"`
	} `json:"contexts"`

	Clusters []struct {
		Name    string      `json:"name"`
		Cluster kubeCluster `json:"cluster"`
	} `json:"clusters"`

	Users []struct {
		Name string   `json:"name"`
		User kubeUser `json:"user"`
	} `json:"users"`
}

type kubeCluster struct {
	Server        string `json:"server"`
	CAFile        string `json:"certificate-authority"`
	CAData        []byte `json:"certificate-authority-data"`
	Insecure      bool   `json:"insecure-skip-tls-verify"`
	TLSServerName string `json:"tls-server-name"`

	ProxyURL any `json:"proxy-url"`
}

type kubeUser struct {
	Token     string `json:"token"`
	TokenFile string `json:"tokenFile"`
	CertFile  string `json:"client-certificate"`
	CertData  []byte `json:"client-certificate-data"`
	KeyFile   string `json:"client-key"`
	KeyData   []byte `json:"client-key-data"`

	Exec         any `json:"exec"`
	AuthProvider any `json:"auth-provider"`
	Username     any `json:"username"`
	Password     any `json:"password"`
	As           any `json:"as"`
	AsUID        any `json:"as-uid"`
	AsGroups     any `json:"as-groups"`
	AsExtra      any `json:"as-user-extra"`
}

// readKubeconfig returns the access of the current context. The kubeconfig is read once; the
// files that it names are read on each use.
func readKubeconfig(name string) (access, error) {
	b, err := readFile(name)
	if err != nil {
		return access{}, fmt.Errorf("read kubeconfig: %w", err)
	}
	a, err := parseKubeconfig(b, filepath.Dir(name))
	if err != nil {
		return access{}, fmt.Errorf("kubeconfig %s: %w", name, err)
	}
	return a, nil
}

func parseKubeconfig(b []byte, dir string) (access, error) {
	var k kubeconfig
	if err := yaml.Unmarshal(b, &k); err != nil {
		return access{}, err
	}
	cluster, user, err := k.current()
	if err != nil {
		return access{}, err
	}
	if err := user.refuse(); err != nil {
		return access{}, err
	}
	if cluster.ProxyURL != nil {
		return access{}, errors.New("proxy-url is not supported: the API server is asked directly")
	}
	beside := func(file string) string {
		if file == "" || filepath.IsAbs(file) {
			return file
		}
		return filepath.Join(dir, file)
	}
	a := access{
		url:    cluster.Server,
		caFile: beside(cluster.CAFile), caData: cluster.CAData,
		serverName: cluster.TLSServerName,
		insecure:   cluster.Insecure,
		tokenFile:  beside(user.TokenFile), token: user.Token,
		certFile: beside(user.CertFile), certData: user.CertData,
		keyFile: beside(user.KeyFile), keyData: user.KeyData,
	}
	// As in kubectl, inline data takes precedence over a file, but tokenFile over token.
	if len(a.caData) > 0 {
		a.caFile = ""
	}
	if a.tokenFile != "" {
		a.token = ""
	}
	return a, nil
}

// current finds the cluster and the user of the current context.
func (k *kubeconfig) current() (cluster kubeCluster, user kubeUser, err error) {
	if k.CurrentContext == "" {
		return cluster, user, errors.New("current-context is not set")
	}
	for _, ctx := range k.Contexts {
		if ctx.Name != k.CurrentContext {
			continue
		}
		found := false
		for _, c := range k.Clusters {
			if c.Name == ctx.Context.Cluster {
				cluster, found = c.Cluster, true
			}
		}
		if !found {
			return cluster, user, fmt.Errorf("context %q: no cluster %q", fault.Clean(ctx.Name), fault.Clean(ctx.Context.Cluster))
		}
		if ctx.Context.User == "" {
			return cluster, user, nil
		}
		for _, u := range k.Users {
			if u.Name == ctx.Context.User {
				return cluster, u.User, nil
			}
		}
		return cluster, user, fmt.Errorf("context %q: no user %q", fault.Clean(ctx.Name), fault.Clean(ctx.Context.User))
	}
	return cluster, user, fmt.Errorf("no context %q, which current-context names", fault.Clean(k.CurrentContext))
}

// refuse returns an error if the user has an unsupported way to authenticate. If it were ignored,
// requests would have another identity.
func (u *kubeUser) refuse() error {
	for _, f := range []struct {
		name  string
		value any
	}{
		{"exec", u.Exec}, {"auth-provider", u.AuthProvider},
		{"username", u.Username}, {"password", u.Password},
		{"as", u.As}, {"as-uid", u.AsUID}, {"as-groups", u.AsGroups}, {"as-user-extra", u.AsExtra},
	} {
		if f.value != nil {
			return fmt.Errorf("user: %s is not supported: use a token, a tokenFile or a client certificate", f.name)
		}
	}
	return nil
}
