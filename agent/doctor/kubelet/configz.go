package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	configzPath = "/configz"
	// answerTime bounds the whole conversation with the kubelet.
	answerTime = 10 * time.Second
	// FromConfigz is where settings come from that the kubelet itself told.
	FromConfigz = "/configz"
)

// Access says where the kubelet serves, and as whom to ask it.
type Access struct {
	URL                string
	TokenFile          string
	CertFile, KeyFile  string
	CAFile             string // empty: the machine's authorities
	ServerName         string // what the certificate is for, if not the URL's host
	InsecureSkipVerify bool
}

// FromKubelet asks the kubelet for the configuration that it runs with.
func FromKubelet(ctx context.Context, a Access) (Settings, error) {
	s := Defaults()
	fail := func(err error) (Settings, error) {
		return s, fmt.Errorf("ask the kubelet at %s: %w", clean(a.URL), err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	body, err := a.get(ctx)
	if err != nil {
		return fail(err)
	}
	if err := s.layAnswer(body); err != nil {
		return fail(err)
	}
	return s, nil
}

// FromAnswer reads what a kubelet has answered to somebody else: an API server that
// passed the question on.
func FromAnswer(body []byte) (Settings, error) {
	s := Defaults()
	if len(body) > maxFileBytes {
		return s, errors.New("what answers is not a kubelet's /configz")
	}
	return s, s.layAnswer(body)
}

// layAnswer reads {"kubeletconfig": {…}}. All defaults are in it, thresholds
// too: what it does not name is not there.
func (s *Settings) layAnswer(body []byte) error {
	var answer struct {
		Config json.RawMessage `json:"kubeletconfig"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || len(answer.Config) == 0 {
		return errors.New("what answers is not a kubelet's /configz")
	}
	doc, err := parseDocument(answer.Config)
	if err != nil {
		return err
	}
	return s.lay(doc, FromConfigz)
}

func (a Access) get(ctx context.Context) ([]byte, error) {
	u, err := url.Parse(a.URL)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return nil, errors.New("want a URL such as https://127.0.0.1:10250")
	}
	transport, err := a.transport()
	if err != nil {
		return nil, err
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath(configzPath).String(), nil)
	if err != nil {
		return nil, err
	}
	if a.TokenFile != "" {
		token, err := readAtMost(a.TokenFile, maxFileBytes)
		if err != nil {
			return nil, err
		}
		if u.Scheme != "https" {
			return nil, errors.New("a token is not sent over http")
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // credentials are for the kubelet alone
	}}
	response, err := client.Do(request)
	if err != nil {
		var told *url.Error
		if errors.As(err, &told) {
			err = told.Err // it would say the address once more
		}
		return nil, explain(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, refused(response.StatusCode)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxFileBytes))
}

func (a Access) transport() (*http.Transport, error) {
	config := &tls.Config{InsecureSkipVerify: a.InsecureSkipVerify, ServerName: a.ServerName}
	if a.CAFile != "" {
		pem, err := readAtMost(a.CAFile, maxFileBytes)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no certificates in it", a.CAFile)
		}
	}
	if a.CertFile != "" || a.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(a.CertFile, a.KeyFile)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	// No proxy: the kubelet is on this machine.
	return &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}, nil
}

func refused(code int) error {
	switch code {
	case http.StatusUnauthorized:
		return errors.New("401: it does not know who is asking: give a token or a client certificate that it accepts")
	case http.StatusForbidden:
		return errors.New(`403: that identity may not ask: allow it to "get" nodes/configz (nodes/proxy before Kubernetes 1.33)`)
	}
	return fmt.Errorf("%d: /configz is not served there (enableDebuggingHandlers)", code)
}

// explain adds what to do about a certificate that cannot be checked.
func explain(err error) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	if errors.As(err, &unknown) || errors.As(err, &name) {
		return fmt.Errorf("%w: name the authority of its serving certificate, or skip the check for an address of this machine", err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s: %w", answerTime, err)
	}
	return err
}
