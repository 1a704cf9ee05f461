package kube

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func newPlainServer(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = quiet()
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// explained asks for pods and checks that the error contains all texts.
func explained(t *testing.T, o KubeletOptions, kind error, texts ...string) {
	t.Helper()
	k, err := NewKubelet(o)
	if err != nil {
		t.Fatal(err)
	}
	defer k.client.close()
	pods, err := k.Pods(t.Context())
	if !errors.Is(err, kind) {
		t.Fatalf("%+v, %v", pods, err)
	}
	for _, want := range append(texts, o.URL) {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not contain %q", err, want)
		}
	}
}

func TestConnectionsThatFail(t *testing.T) {
	var answers kubeletAnswers
	answers.set(wholeMetrics, normalPod.json())
	s := newServer(t, answers.handle)
	good := KubeletOptions{URL: s.URL, CAFile: s.caFile, TokenFile: s.tokenFile}

	t.Run("unknown authority", func(t *testing.T) {
		o := good
		o.CAFile = write(t, "other.crt", newAuthority(t, "another").pem)
		explained(t, o, ErrUnavailable, "authority", o.CAFile)
		o.CAFile = ""
		explained(t, o, ErrUnavailable, "authority")
	})
	t.Run("another name", func(t *testing.T) {
		o := good
		o.ServerName = "node-2"
		explained(t, o, ErrUnavailable, "another name", "node-1")
	})
	t.Run("certificate expired", func(t *testing.T) {
		old := httptest.NewUnstartedServer(http.HandlerFunc(answers.handle))
		old.TLS = s.authority.server(t, "node-1", time.Now().Add(-time.Minute))
		old.Config.ErrorLog = quiet()
		old.StartTLS()
		defer old.Close()
		o := good
		o.URL = old.URL
		explained(t, o, ErrUnavailable, "expired")
	})
	t.Run("client certificate expired", func(t *testing.T) {
		cert, key := s.authority.pair(t, "agent", time.Now().Add(-time.Minute))
		o := KubeletOptions{URL: s.URL, CAFile: s.caFile, CertFile: write(t, "tls.crt", cert), KeyFile: write(t, "tls.key", key)}
		explained(t, o, ErrUnavailable, o.CertFile, "(expired on")
	})
	t.Run("nobody", func(t *testing.T) {
		explained(t, KubeletOptions{URL: s.URL, CAFile: s.caFile}, ErrUnauthorized, "neither a token nor a client certificate")
	})
	t.Run("nothing listens", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		o := good
		o.URL = "https://" + l.Addr().String()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		explained(t, o, ErrUnavailable, "nothing listens")
	})
	t.Run("plain where TLS is wanted", func(t *testing.T) {
		o := good
		o.URL = strings.Replace(newPlainServer(t, answers.handle).URL, "http:", "https:", 1)
		explained(t, o, ErrUnavailable, "does not speak TLS")
	})
	t.Run("TLS where plain is wanted", func(t *testing.T) {
		explained(t, KubeletOptions{URL: strings.Replace(s.URL, "https:", "http:", 1)}, ErrUnavailable, "https")
	})
	t.Run("a name that is not known", func(t *testing.T) {
		o := good
		o.URL = "https://node.invalid:10250"
		explained(t, o, ErrUnavailable)
	})
}

func TestWaysIn(t *testing.T) {
	var answers kubeletAnswers
	answers.set(wholeMetrics, normalPod.json())
	s := newServer(t, answers.handle)
	cert, key := s.authority.pair(t, "agent", time.Now().Add(time.Hour))
	certFile, keyFile := write(t, "tls.crt", cert), write(t, "tls.key", key)
	for name, o := range map[string]KubeletOptions{
		"token":       {URL: s.URL, CAFile: s.caFile, TokenFile: s.tokenFile},
		"by name":     {URL: s.URL, CAFile: s.caFile, TokenFile: s.tokenFile, ServerName: "node-1"},
		"certificate": {URL: s.URL, CAFile: s.caFile, CertFile: certFile, KeyFile: keyFile},
		"unchecked":   {URL: s.URL, InsecureSkipVerify: true, TokenFile: s.tokenFile},
		"a slash":     {URL: s.URL + "/", CAFile: s.caFile, TokenFile: s.tokenFile},
	} {
		k, err := NewKubelet(o)
		if err != nil {
			t.Fatal(err)
		}
		if pods, err := k.Pods(t.Context()); err != nil || len(pods.List) != 1 {
			t.Errorf("%s: %+v, %v", name, pods, err)
		}
		k.client.close()
	}
}

// Tokens, certificates and authorities are renewed beside a running agent.
func TestFilesAreReadAgain(t *testing.T) {
	var answers kubeletAnswers
	answers.set(wholeMetrics, normalPod.json())
	s := newServer(t, answers.handle)

	k := s.kubelet(t)
	ask := func(want error) {
		t.Helper()
		if _, err := k.Pods(t.Context()); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	ask(nil)
	replaceFile(t, s.tokenFile, []byte("expired"))
	ask(ErrUnauthorized)
	replaceFile(t, s.tokenFile, []byte(secret))
	ask(nil)
	replaceFile(t, s.caFile, newAuthority(t, "another").pem)
	k.client.close()
	ask(ErrUnavailable)
	replaceFile(t, s.caFile, s.authority.pem)
	ask(nil)

	cert, key := s.authority.pair(t, "agent", time.Now().Add(-time.Minute))
	certFile, keyFile := write(t, "tls.crt", cert), write(t, "tls.key", key)
	k, err := NewKubelet(KubeletOptions{URL: s.URL, CAFile: s.caFile, CertFile: certFile, KeyFile: keyFile})
	if err != nil {
		t.Fatal(err)
	}
	defer k.client.close()
	ask(ErrUnavailable)
	cert, key = s.authority.pair(t, "agent", time.Now().Add(time.Hour))
	replaceFile(t, certFile, cert)
	replaceFile(t, keyFile, key)
	ask(nil)
	// Half of a renewal: an error that names both files, and no pods.
	replaceFile(t, keyFile, []byte("half"))
	k.client.close()
	if _, err := k.Pods(t.Context()); err == nil || !strings.Contains(err.Error(), certFile) || !strings.Contains(err.Error(), keyFile) {
		t.Error(err)
	}
	for _, token := range []string{"", " \n", "two words", "a\nb", "\xff"} {
		replaceFile(t, s.tokenFile, []byte(token))
		if b, err := (&access{tokenFile: s.tokenFile}).bearer(); err == nil || strings.Contains(err.Error(), "two") {
			t.Errorf("token %q: %q, %v", token, b, err)
		}
	}
}

func TestOptions(t *testing.T) {
	ca := write(t, "ca.crt", newAuthority(t, "a").pem)
	token := write(t, "token", []byte("t"))
	for name, o := range map[string]KubeletOptions{
		"no scheme":            {URL: "127.0.0.1:10250"},
		"another scheme":       {URL: "unix:///run/kubelet.sock"},
		"a query":              {URL: "https://a/?b"},
		"a user":               {URL: "https://a:b@c"},
		"no host":              {URL: "https://"},
		"token without TLS":    {URL: "http://127.0.0.1:10255", TokenFile: token},
		"authority, no TLS":    {URL: "http://127.0.0.1:10255", CAFile: ca},
		"authority, unchecked": {CAFile: ca, InsecureSkipVerify: true},
		"no such token":        {TokenFile: token + "x"},
		"no such authority":    {CAFile: ca + "x"},
		"authority is a token": {CAFile: token},
		"a certificate alone":  {CertFile: ca},
		"a key alone":          {KeyFile: ca},
		"no such certificate":  {CertFile: ca + "x", KeyFile: ca},
		"no key":               {CertFile: ca, KeyFile: ca},
	} {
		if _, err := NewKubelet(o); err == nil || !strings.HasPrefix(err.Error(), "kubelet: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewKubelet(KubeletOptions{CAFile: ca, TokenFile: token}); err != nil {
		t.Error(err)
	}
	if _, err := readFile("/dev/zero"); err == nil {
		t.Error("a file without end was read")
	}
}
