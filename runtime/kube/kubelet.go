package kube

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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

// KubeletOptions holds the address of the kubelet and the credentials for it.
type KubeletOptions struct {
	URL string // default https://127.0.0.1:10250; http is the read-only port, without credentials

	// CAFile has the authorities that the kubelet's serving certificate is verified with. For a
	// self-signed certificate it is the kubelet's own pki/kubelet.crt. If it is empty, the
	// machine's authorities are used.
	CAFile string
	// ServerName is the name that the certificate must have if it is not the URL's host. It is
	// usually the node's name.
	ServerName string
	// InsecureSkipVerify accepts any certificate. The token is then sent to any server that
	// listens at the URL.
	InsecureSkipVerify bool

	// TokenFile, or CertFile and KeyFile, are the credentials. They are read on each use, so they
	// may be replaced.
	TokenFile         string
	Token             string // in place of a file
	CertFile, KeyFile string
}

// Kubelet reads the pods from the kubelet of this node.
type Kubelet struct {
	client *client

	// turn admits one reading at a time, so that all use one connection.
	turn chan struct{}
	// whole is the connection to a kubelet that was found to know all its pods; nil before.
	// Another connection may lead to another process. The holder of turn owns it.
	whole net.Conn
}

const (
	podsPath    = "/pods"
	metricsPath = "/metrics"
	configzPath = "/configz"
)

// configzTurn bounds how long a reading of the configuration may keep those of the pods waiting.
const configzTurn = time.Second

// maxConfigz bounds a kubelet's configuration; a real one has a few kilobytes.
const maxConfigz = 1 << 20

// NewKubelet checks the options. It sends no request to the kubelet.
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

// kubeletForbidden returns which right is missing. Since Kubernetes 1.33
// (KubeletFineGrainedAuthz) each path has a subresource of its own. Before that, most paths
// needed nodes/proxy.
func kubeletForbidden(path string) string {
	switch path {
	case metricsPath:
		return "allow that identity to get nodes/metrics"
	case configzPath:
		return "allow that identity to get nodes/configz; before Kubernetes 1.33 nodes/proxy"
	}
	return "allow that identity to get nodes/pods; before Kubernetes 1.33 nodes/proxy"
}

// Run implements Source. It only waits, because the kubelet does not report changes of its pods.
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

// Configz returns the configuration that the kubelet runs with, {"kubeletconfig": {…}}, cut off
// after maxConfigz bytes.
func (k *Kubelet) Configz(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	defer k.client.close() // a caller needs this only once
	return k.configz(ctx)
}

// ImageGCHighThreshold returns the used share of the disk, in percent, from which the kubelet itself
// removes images. At 100 it removes none for space.
func (k *Kubelet) ImageGCHighThreshold(ctx context.Context) (percent int, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// A request beside a reading of the pods would need a connection of its own.
	if err := k.takeTurn(ctx, configzPath); err != nil {
		return 0, err
	}
	defer func() { <-k.turn }()
	ctx, cancel = context.WithTimeout(ctx, configzTurn) // pods are asked for before removals
	defer cancel()
	body, err := k.configz(ctx)
	if err != nil {
		return 0, err
	}
	var answer struct {
		Config struct {
			Percent *int `json:"imageGCHighThresholdPercent"`
		} `json:"kubeletconfig"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Config.Percent == nil {
		return 0, fmt.Errorf("%s: the answer has no imageGCHighThresholdPercent", k.client.op(configzPath))
	}
	return *answer.Config.Percent, nil
}

func (k *Kubelet) configz(ctx context.Context) ([]byte, error) {
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

// Pass implements Source. The kubelet cannot be asked about one pod, so the first call of Gone
// reads the whole list, and the calls of the next five seconds use it. A pod that is gone does
// not come back, except a static pod whose file is restored.
func (k *Kubelet) Pass() Pass { return &kubeletPass{kubelet: k} }

// passAge is the maximum age of a reading that a removal relies on.
const passAge = 5 * time.Second

type kubeletPass struct {
	kubelet *Kubelet

	mu    sync.Mutex
	read  time.Time       // start of the last reading; zero: none yet
	there map[string]bool // by UID
	err   error           // is kept as long as an answer would be
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

// read calls each for each pod of one whole list, and begin before every attempt. The list counts
// only if the kubelet knew all its pods before it answered. The process that knew them must be
// the one that answered, which the same connection proves.
//
// A kubelet that has just started answers /pods with what it has. At first it has nothing, then
// static pods. It has the pods of the API server only once it reaches the API server, which may
// take hours. Nothing in the answer shows this. The kubelet itself waits for every source before
// it removes anything (sourcesReady.AllReady). The first thing that it does then is to set the
// metric kubelet_desired_pods, even for no pods.
//
// So read gets /metrics first: the metric proves that this process knows all its pods from then
// on. The pods must come over the connection on which the metric came; otherwise both are read
// again. (Through a proxy that keeps connections open over a restart this proof would not hold.)
//
// The metric is alpha, of Kubernetes 1.27 and newer. Without it, or without permission to read it
// (nodes/metrics), the pods count as not known.
func (k *Kubelet) read(ctx context.Context, begin func(), each func(item) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := k.takeTurn(ctx, podsPath); err != nil {
		return err
	}
	defer func() { <-k.turn }()
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

// takeTurn waits for the turn; the caller gives it back.
func (k *Kubelet) takeTurn(ctx context.Context, path string) error {
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return k.client.broken(k.client.op(path), context.Cause(ctx))
	}
}

// list reads the pods, and returns the connection that it used.
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

// get sends a GET request, and also returns the connection that it used.
func (k *Kubelet) get(ctx context.Context, path, contentType string) (*http.Response, net.Conn, error) {
	var conn net.Conn
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// Called again if the request is repeated on another connection.
		GotConn: func(info httptrace.GotConnInfo) { conn = info.Conn },
	})
	resp, err := k.client.get(ctx, path, contentType, nil)
	if err != nil {
		// A new connection uses credentials that changed on disk, and may succeed.
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

// desiredPods is the prefix of the lines of kubelet_desired_pods. A kubelet sets this metric once
// it has received its pods from every source. See [Kubelet.read].
const desiredPods = "kubelet_desired_pods{"

// maxMetrics bounds the metrics of a kubelet: about half a megabyte with a
// hundred pods.
const maxMetrics = 16 << 20

// findMetric reports whether a line begins with prefix, in the text format of Prometheus. It
// reads to the end, because only then an HTTP/1 connection can be reused.
func findMetric(r io.Reader, prefix string) (bool, error) {
	lines := bufio.NewReaderSize(bounded.NewReader(r, maxMetrics, maxMetrics), 4<<10)
	found := false
	for begin := true; ; {
		line, err := lines.ReadSlice('\n')
		// Only a complete line that fits the buffer is compared. The rest of a longer line is not
		// the beginning of a line.
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
