package kube

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/bounded"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// KubeletOptions say where the kubelet is, and as whom to ask it.
type KubeletOptions struct {
	URL string // default https://127.0.0.1:10250; http is the read-only port, without credentials

	// CAFile is what the kubelet's serving certificate is checked against. Of a
	// kubelet that signs for itself this is its own pki/kubelet.crt. Without it,
	// the machine's authorities are asked.
	CAFile string
	// ServerName is what the certificate must be for, if that is not the URL's
	// host: usually the node's name.
	ServerName string
	// InsecureSkipVerify takes any certificate. The token then goes to whoever
	// listens at the URL.
	InsecureSkipVerify bool

	// TokenFile, or CertFile and KeyFile, are who is asking. They are read again
	// when they are needed, so they may be replaced.
	TokenFile         string
	Token             string // in place of a file
	CertFile, KeyFile string
}

// Kubelet asks the kubelet of this node.
type Kubelet struct {
	client *client

	// turn admits one reading at a time, so that all use one connection.
	turn chan struct{}
	// whole is the connection to a kubelet that was found to know all its pods;
	// nil before. Another connection may lead to another process. Belongs to
	// whoever has the turn.
	whole net.Conn
}

const (
	podsPath    = "/pods"
	metricsPath = "/metrics"
	configzPath = "/configz"
)

// maxConfigz bounds a kubelet's configuration; a real one has a few kilobytes.
const maxConfigz = 1 << 20

// NewKubelet checks the options; it does not ask the kubelet anything yet.
func NewKubelet(o KubeletOptions) (*Kubelet, error) {
	c, err := newClient(access{
		url:        cmp.Or(o.URL, "https://127.0.0.1:10250"),
		caFile:     o.CAFile,
		serverName: o.ServerName,
		insecure:   o.InsecureSkipVerify,
		tokenFile:  o.TokenFile,
		token:      o.Token,
		certFile:   o.CertFile,
		keyFile:    o.KeyFile,
	}, hints{unauthorized: kubeletUnauthorized, forbidden: kubeletForbidden})
	if err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	return &Kubelet{client: c, turn: make(chan struct{}, 1)}, nil
}

func kubeletUnauthorized(identity string) string {
	return "the kubelet does not know " + identity +
		"; a token needs authentication.webhook.enabled in its configuration, a certificate authentication.x509.clientCAFile"
}

// kubeletForbidden says what is missing. Since Kubernetes 1.33
// (KubeletFineGrainedAuthz) it is a subresource for each path, before that
// nodes/proxy for most.
func kubeletForbidden(path string) string {
	switch path {
	case metricsPath:
		return "allow that identity to get nodes/metrics"
	case configzPath:
		return "allow that identity to get nodes/configz; before Kubernetes 1.33 nodes/proxy"
	}
	return "allow that identity to get nodes/pods; before Kubernetes 1.33 nodes/proxy"
}

// Run waits: the kubelet tells nobody when its pods change.
func (k *Kubelet) Run(ctx context.Context, _ chan<- struct{}) error {
	<-ctx.Done()
	k.client.close()
	return nil
}

// Pods implements Source.
func (k *Kubelet) Pods(ctx context.Context) (Pods, error) {
	var list []Pod
	err := k.read(ctx, func() { list = nil }, func(it item) error {
		list = append(list, it.Pod)
		return nil
	})
	if err != nil {
		return Pods{}, err
	}
	sortPods(list)
	return Pods{List: list, StaticKnown: true}, nil
}

// Configz returns the configuration that the kubelet runs with, {"kubeletconfig": {…}},
// cut off where it is too long.
func (k *Kubelet) Configz(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	defer k.client.close() // who asks this asks once
	resp, err := k.client.get(ctx, configzPath, "application/json", nil)
	if refused := new(fault.Answer); errors.As(err, &refused) && refused.Hint == "" {
		refused.Hint = fmt.Sprintf("status %d; /configz is served only with enableDebuggingHandlers", refused.Code)
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxConfigz))
	if err != nil {
		return nil, k.client.broken(k.client.op(configzPath), err)
	}
	return body, nil
}

// Pass implements Source. There is no way to ask the kubelet about one pod: the whole list
// is read for the first question, and not again for those of the next five seconds. A pod
// that went does not come back, but for a static one whose file is put back.
func (k *Kubelet) Pass() Pass { return &kubeletPass{kubelet: k} }

// passAge is how old a reading may be on which a removal rests.
const passAge = 5 * time.Second

type kubeletPass struct {
	kubelet *Kubelet

	mu    sync.Mutex
	read  time.Time       // begin of the last reading; zero: none yet
	there map[string]bool // by UID
	err   error           // counts for as long as an answer would
}

// Gone implements Pass.
func (p *kubeletPass) Gone(ctx context.Context, _, _, uid string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read.IsZero() || time.Since(p.read) > passAge {
		p.read = time.Now()
		p.err = p.kubelet.read(ctx, func() { p.there = make(map[string]bool) }, func(it item) error {
			p.there[it.UID], p.there[it.ownUID] = true, true
			return nil
		})
	}
	return p.err == nil && !p.there[uid], p.err
}

// read gives each pod of one whole list to each; begin comes before every
// attempt. It counts only if the kubelet knew all its pods before it answered,
// for which it must be the same process that answered: the same connection.
//
// A kubelet that has just started answers /pods with what it has: first nothing, then
// static pods, and those of the API server only once that is reached, which may take
// hours. Nothing in the answer shows this. The kubelet itself waits for every source before it
// removes anything (sourcesReady.AllReady), and the first thing that it does then is to
// set the metric kubelet_desired_pods, even for no pods. So its /metrics are read first:
// the metric proves that this process knows all its pods from then on. The connection
// proves that it is still the same process: the pods must come over the one on which the
// metric came, else both are read again. (Through a proxy that keeps connections open
// over a restart this proof would not hold.)
//
// The metric is alpha, of Kubernetes 1.27 and newer. Without it, or without permission to
// read it (nodes/metrics), the pods count as not known.
func (k *Kubelet) read(ctx context.Context, begin func(), each func(item) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return k.client.broken(k.client.op(podsPath), context.Cause(ctx))
	}
	const attempts = 3
	for range attempts {
		if k.whole == nil {
			conn, err := k.checkWhole(ctx)
			if err != nil {
				return err
			}
			k.whole = conn
		}
		begin()
		conn, err := k.list(ctx, each)
		if err != nil {
			k.whole = nil
			return err
		}
		if conn == k.whole {
			return nil
		}
		k.whole = nil
	}
	return &fault.Fault{Op: k.client.op(podsPath), Kind: ErrIncomplete,
		Text: "the kubelet closes each connection, so that nothing tells whether it was restarted in between"}
}

// list asks for the pods, and says on which connection.
func (k *Kubelet) list(ctx context.Context, each func(item) error) (net.Conn, error) {
	resp, conn, err := k.get(ctx, podsPath, "application/json")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if _, err := decodeList(resp.Body, each); err != nil {
		return nil, k.client.broken(k.client.op(podsPath), err)
	}
	return conn, nil
}

// get notes the connection that a request went over.
func (k *Kubelet) get(ctx context.Context, path, contentType string) (*http.Response, net.Conn, error) {
	var conn net.Conn
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// Called again if the request is repeated on another connection.
		GotConn: func(info httptrace.GotConnInfo) { conn = info.Conn },
	})
	resp, err := k.client.get(ctx, path, contentType, nil)
	if err != nil {
		// With what changed on disk in the meantime, a new connection may do.
		k.client.close()
		return nil, nil, err
	}
	return resp, conn, nil
}

// checkWhole returns the connection on which the kubelet reported that it knows
// all its pods.
func (k *Kubelet) checkWhole(ctx context.Context) (net.Conn, error) {
	resp, conn, err := k.get(ctx, metricsPath, "text/plain")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	found, err := findMetric(resp.Body, desiredPods)
	if err != nil {
		return nil, k.client.broken(k.client.op(metricsPath), err)
	}
	if !found {
		return nil, &fault.Fault{Op: k.client.op(metricsPath), Kind: ErrIncomplete,
			Text: strings.TrimSuffix(desiredPods, "{") + " is not there",
			Hint: "a kubelet has it when it has heard from the API server and read its static pods; one older than Kubernetes 1.27 never has"}
	}
	return conn, nil
}

// desiredPods is how the lines of the metric begin by which a kubelet shows
// that it has heard from every source of its pods. See [Kubelet.read].
const desiredPods = "kubelet_desired_pods{"

// maxMetrics bounds the metrics of a kubelet: about half a megabyte with a
// hundred pods.
const maxMetrics = 16 << 20

// findMetric looks for a line that begins with prefix in the text format of
// Prometheus. It reads to the end, because only then a connection of HTTP/1
// can be used again.
func findMetric(r io.Reader, prefix string) (bool, error) {
	lines := bufio.NewReaderSize(bounded.NewReader(r, maxMetrics, maxMetrics), 4<<10)
	found := false
	for begin := true; ; {
		line, err := lines.ReadSlice('\n')
		// Of a line that does not fit only the beginning is of interest.
		found = found || begin && err == nil && bytes.HasPrefix(line, []byte(prefix))
		begin = err == nil
		switch {
		case err == nil, errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return found, nil
		default:
			return false, err
		}
	}
}
