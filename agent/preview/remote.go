package preview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ebb-agent/ebb/policy/cascade/preview"
	"github.com/ebb-agent/ebb/policy/gc"
)

const (
	// Path is the path of previews on a controller's server.
	Path = "/preview"
	// MostNodes bounds the limits in a request there.
	MostNodes = 10_000

	askTimeout   = time.Minute
	maxAnswer    = 64 << 20
	maxRefusal   = 2 << 10
	longestValue = 512
)

// ErrAddress is returned (wrapped) for an address that cannot be a controller's.
var ErrAddress = errors.New("not the address of a controller")

// Ask gets a preview from a running controller. Its address is unix:///run/ebb/controller.sock or
// http://127.0.0.1:9479.
func Ask(ctx context.Context, address string, q Query) (Answer, error) {
	client, base, err := dial(address)
	if err != nil {
		return Answer{}, err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+Path+"?"+q.Values().Encode(), nil)
	if err != nil {
		return Answer{}, fmt.Errorf("ask the controller: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, fmt.Errorf("ask the controller at %s: %w", address, explainDial(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Answer{}, refused(address, resp)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(data) > maxAnswer {
		err = fmt.Errorf("more than %d MiB", maxAnswer>>20)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("ask the controller at %s: %w", address, err)
	}
	a, err := Decode(data)
	if err != nil {
		return Answer{}, fmt.Errorf("ask the controller at %s: %w", address, err)
	}
	return a, nil
}

func dial(address string) (client *http.Client, base string, err error) {
	// No proxy from the environment, and no redirect: the controller is on the same machine or
	// behind a port-forward.
	t := &http.Transport{MaxResponseHeaderBytes: 64 << 10}
	client = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	u, err := url.Parse(address)
	switch {
	case err == nil && u.Scheme == "unix" && u.Host == "" && strings.HasPrefix(u.Path, "/"):
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", u.Path)
		}
		return client, "http://localhost", nil
	case err == nil && u.Scheme == "http" && u.Host != "" && u.User == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery == "":
		return client, "http://" + u.Host, nil
	}
	return nil, "", fmt.Errorf("%q: %w: want unix:///run/ebb/controller.sock or http://127.0.0.1:9479", address, ErrAddress)
}

func explainDial(err error) error {
	switch {
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w (the socket is for the controller's own user: run this as that user or root)", err)
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w (is it running, and is this where its configuration says server.adminSocket or server.address?)", err)
	}
	return err
}

// refused reads a response that is not 200 OK, and returns it as an error.
func refused(address string, resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return fmt.Errorf("ask the controller at %s: %s: %w", address, resp.Status, err)
	}
	message := clean(strings.TrimSpace(string(text)))
	if resp.StatusCode == http.StatusNotFound && strings.HasPrefix(message, "404 page not found") {
		message = "it does not answer this there: previews are on its admin socket, and on its address only if that is a loopback one"
	}
	return errors.New(message)
}

// Decode reads an answer in JSON, and checks that it is one.
func Decode(data []byte) (Answer, error) {
	var a Answer
	if err := json.Unmarshal(data, &a); err != nil {
		return Answer{}, fmt.Errorf("read the answer: %w", err)
	}
	sound := a.Root != nil && a.Source != ""
	todo := append([]*preview.Node{a.Root}, a.Released...)
	for len(todo) > 0 && sound {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if sound = n != nil; sound {
			todo = append(todo, n.Dependents...)
		}
	}
	if !sound {
		return Answer{}, errors.New("read the answer: it is not a preview")
	}
	return a, nil
}

// Values returns the query as URL parameters, for [ParseQuery].
func (q Query) Values() url.Values {
	v := url.Values{"resource": {q.Resource}, "name": {q.Name}, "policy": {string(q.Policy)}}
	if q.Namespace != "" {
		v.Set("namespace", q.Namespace)
	}
	for name, n := range map[string]int{"limit": q.Limits.Nodes, "alike": q.Limits.Alike} {
		if n > 0 {
			v.Set(name, strconv.Itoa(n))
		}
	}
	return v
}

// ParseQuery reads a query from URL parameters; an invalid value is an error.
func ParseQuery(v url.Values) (q Query, err error) {
	for name, values := range v {
		if len(values) != 1 || len(values[0]) > longestValue {
			return q, fmt.Errorf("%.20q: want one value of at most %d bytes", name, longestValue)
		}
	}
	q = Query{Resource: v.Get("resource"), Name: v.Get("name"), Namespace: v.Get("namespace")}
	if q.Resource == "" || q.Name == "" {
		return q, errors.New("want resource and name; namespace, policy, limit and alike as ebb cascade takes them")
	}
	if q.Policy, err = ParsePolicy(v.Get("policy")); err != nil {
		return q, err
	}
	for name, to := range map[string]*int{"limit": &q.Limits.Nodes, "alike": &q.Limits.Alike} {
		if s := v.Get(name); s != "" {
			if *to, err = strconv.Atoi(s); err != nil || *to < 1 || *to > MostNodes {
				return q, fmt.Errorf("%s: %.20q is not a number from 1 to %d", name, s, MostNodes)
			}
		}
	}
	return q, nil
}

// ParsePolicy reads a propagation policy in any letter case; "" is background.
func ParsePolicy(s string) (gc.Policy, error) {
	for _, p := range []gc.Policy{gc.Background, gc.Foreground, gc.Orphan} {
		if s == "" || strings.EqualFold(s, string(p)) {
			return p, nil
		}
	}
	return "", fmt.Errorf("policy %.20q is none of background, foreground and orphan", s)
}
