package kube

import (
	"encoding/base64"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// config is a kubeconfig with these fields of its cluster and user.
func config(cluster, user string) string {
	return `
apiVersion: v1
kind: Config
current-context: here
contexts:
- {name: elsewhere, context: {cluster: other, user: other}}
- {name: here, context: {cluster: c, user: u, namespace: shop}}
clusters:
- {name: other, cluster: {server: "https://other"}}
- {name: c, cluster: {` + cluster + `}}
users:
- {name: other, user: {exec: {command: aws}}}
- {name: u, user: {` + user + `}}
preferences: {colors: true}
`
}

func TestKubeconfig(t *testing.T) {
	for name, tt := range map[string]struct {
		cluster, user string
		want          access
	}{
		"token":         {`server: "https://a:6443"`, `token: abc`, access{url: "https://a:6443", token: "abc"}},
		"relative":      {`server: "https://a", certificate-authority: pki/ca.crt`, `tokenFile: token`, access{url: "https://a", caFile: "/etc/k/pki/ca.crt", tokenFile: "/etc/k/token"}},
		"absolute":      {`server: "https://a", certificate-authority: /ca.crt`, `client-certificate: /c, client-key: /k`, access{url: "https://a", caFile: "/ca.crt", certFile: "/c", keyFile: "/k"}},
		"data":          {`server: "https://a", certificate-authority-data: ` + b64("CA"), `client-certificate-data: ` + b64("C") + `, client-key-data: ` + b64("K"), access{url: "https://a", caData: []byte("CA"), certData: []byte("C"), keyData: []byte("K")}},
		"data first":    {`server: "https://a", certificate-authority: x, certificate-authority-data: ` + b64("CA"), ``, access{url: "https://a", caData: []byte("CA")}},
		"file first":    {`server: "https://a"`, `token: abc, tokenFile: /t`, access{url: "https://a", tokenFile: "/t"}},
		"unchecked":     {`server: "https://a", insecure-skip-tls-verify: true, tls-server-name: b`, ``, access{url: "https://a", insecure: true, serverName: "b"}},
		"unknown field": {`server: "https://a", disable-compression: true`, ``, access{url: "https://a"}},
	} {
		got, err := parseKubeconfig([]byte(config(tt.cluster, tt.user)), "/etc/k")
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(access{})); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestKubeconfigRefused(t *testing.T) {
	good := config(`server: "https://a"`, ``)
	for want, text := range map[string]string{
		"exec is not":          config(`server: "https://a"`, `exec: {command: aws, apiVersion: client.authentication.k8s.io/v1}`),
		"auth-provider is not": config(`server: "https://a"`, `auth-provider: {name: gcp}`),
		"username is not":      config(`server: "https://a"`, `username: admin, password: x`),
		"password is not":      config(`server: "https://a"`, `password: x`),
		"as is not":            config(`server: "https://a"`, `token: a, as: admin`),
		"as-groups is not":     config(`server: "https://a"`, `token: a, as-groups: [b]`),
		"proxy-url is not":     config(`server: "https://a", proxy-url: "http://proxy"`, ``),
		"current-context":      strings.Replace(good, "current-context: here", "", 1),
		`no context "gone"`:    strings.Replace(good, "current-context: here", "current-context: gone", 1),
		`no cluster "c"`:       strings.Replace(good, "name: c,", "name: d,", 1),
		`no user "u"`:          strings.Replace(good, "name: u,", "name: v,", 1),
		"yaml":                 "a: b: c",
		"cannot unmarshal":     "contexts: {}",
		"illegal base64":       config(`server: "https://a", certificate-authority-data: "%%"`, ``),
	} {
		if a, err := parseKubeconfig([]byte(text), "/"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v, %+v", want, err, a)
		}
	}
}

func TestNewAPIServer(t *testing.T) {
	f := newFakeAPI()
	f.put(pod("a"))
	s := newServer(t, f.handle)

	t.Run("kubeconfig", func(t *testing.T) {
		file := write(t, "kubeconfig", []byte(config(`server: "`+s.URL+`", certificate-authority-data: `+b64(string(s.authority.pem)), `token: `+secret)))
		a, err := NewAPIServer(APIServerOptions{NodeName: "node-1", Kubeconfig: file})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, a, run(t, a), "the list", has("a"))
	})
	t.Run("in a pod", func(t *testing.T) {
		host, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "https://"), ":")
		t.Setenv("KUBERNETES_SERVICE_HOST", host)
		t.Setenv("KUBERNETES_SERVICE_PORT", port)
		dir := t.TempDir()
		replaceFile(t, filepath.Join(dir, "ca.crt"), s.authority.pem)
		replaceFile(t, filepath.Join(dir, "token"), []byte(secret))
		got, err := inCluster(dir)
		if err != nil {
			t.Fatal(err)
		}
		a, err := newAPIServer(got, "node-1")
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, a, run(t, a), "the list", has("a"))
		t.Setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
		if got, err := inCluster(dir); err != nil || got.url != "https://[fd00::1]:"+port {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("not in a pod", func(t *testing.T) {
		t.Setenv("KUBERNETES_SERVICE_HOST", "")
		if _, err := NewAPIServer(APIServerOptions{NodeName: "n"}); err == nil || !strings.Contains(err.Error(), "kubeconfig") {
			t.Error(err)
		}
	})
	for _, name := range []string{"", "Node 1", "a/b", ".."} {
		if _, err := NewAPIServer(APIServerOptions{NodeName: name}); err == nil || !strings.Contains(err.Error(), "spec.nodeName") {
			t.Errorf("node name %q: %v", name, err)
		}
	}
	if _, err := NewAPIServer(APIServerOptions{NodeName: "n", Kubeconfig: "/no/such/file"}); err == nil || !strings.Contains(err.Error(), "/no/such/file") {
		t.Error(err)
	}
}

func FuzzKubeconfig(f *testing.F) {
	f.Add([]byte(config(`server: "https://a:6443"`, `token: abc`)))
	f.Add([]byte(config(`server: "https://a", certificate-authority: x`, `client-certificate: /c, client-key: /k`)))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseKubeconfig(b, "/etc/k")
		if err != nil {
			return
		}
		for _, file := range []string{a.caFile, a.tokenFile, a.certFile, a.keyFile} {
			if file != "" && !filepath.IsAbs(file) {
				t.Errorf("relative file %q", file)
			}
		}
		if u, err := a.parse(); err == nil && u.Scheme == "http" && a.token != "" {
			t.Errorf("a token without TLS: %+v", a)
		}
	})
}
