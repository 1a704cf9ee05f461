package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/stdio"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// Bounds for answers and connections.
const (
	maxAnswer  = 64 << 20 // with thousands of images, an agent's answer has some MiB
	maxRefusal = 1 << 20  // a refusal may contain a plan
	maxHeaders = 64 << 10
	idle       = 30 * time.Second // how long an unused connection is kept
)

// Client asks one agent.
type Client struct {
	Agent Agent
	http  http.Client
	life  context.Context
	end   context.CancelFunc

	mu    sync.Mutex
	conns []*conn // over exec; dial drops those that have ended
}

// Client makes a client, which connects at its first request. Its connections end with ctx, or with
// [Client.Close]. Without a deadline in ctx, a request that gets no answer never ends.
func (a Agent) Client(ctx context.Context) *Client {
	c := &Client{Agent: a}
	c.life, c.end = context.WithCancel(ctx)
	c.http = http.Client{
		Transport: &http.Transport{
			DialContext: c.dial, MaxResponseHeaderBytes: maxHeaders, IdleConnTimeout: idle, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	path := c.Agent.desk.o.Socket
	if path != "" {
		local, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err != nil {
			err = stdio.Explain(path, err)
			return nil, failed(err, "%v", err)
		}
		context.AfterFunc(c.life, func() { _ = local.Close() })
		return local, nil
	}
	remote, err := c.Agent.exec(ctx, c.life)
	if err != nil {
		return nil, err // a nil *conn in the interface would not be nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = slices.DeleteFunc(c.conns, (*conn).ended)
	c.conns = append(c.conns, remote)
	return remote, nil
}

// Close ends all connections, also those in use. It waits up to the grace for the commands in the
// pod to end.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	patience := time.After(grace)
	for _, conn := range c.conns {
		select {
		case <-conn.done:
		case <-patience:
			return // the grace is over: the others are cut off now
		}
	}
}

// Refused is an answer whose status is not 2xx.
type Refused struct {
	Code int
	Text string // the agent's error, escaped; for 400, with its version if that is another one
	Body []byte // as received, up to 1 MiB
}

func (r *Refused) Error() string { return r.Text }

// Do sends a request. If in is not nil, its JSON becomes the body. Do returns a response only if
// its status is 2xx. If the agent refuses the request, the error is a [*Refused]. If the agent has
// no such page, it is an [ErrVersion]. The caller must close the response's body, whose length is
// not bounded.
func (c *Client) Do(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://ebb-agent"+path, body)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c.introduce(req)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, plain(err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.refused(path, resp)
}

// introduce sets the headers with this command's version and, if known, the caller's name.
func (c *Client) introduce(req *http.Request) {
	req.Header.Set(page.HeaderVersion, c.Agent.desk.o.Version)
	if name, err := c.Agent.desk.Caller(req.Context()); err == nil {
		name = strconv.QuoteToASCII(fault.CleanUpTo(name, maxValue))
		req.Header.Set(page.HeaderCaller, name[1:len(name)-1])
	}
}

// plain removes what the HTTP client wraps around an error.
func plain(err error) error {
	var f *failure
	var u *url.Error
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return failed(err, "the agent ended the connection without an answer")
	case errors.As(err, &u):
		err = u.Err
	}
	return failed(err, "%s", fault.CleanUpTo(err.Error(), maxStderr))
}

func (c *Client) refused(path string, resp *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return fmt.Errorf("read the answer %s: %w", strconv.Itoa(resp.StatusCode), plain(err))
	}
	if resp.StatusCode == http.StatusNotFound && string(data) == muxNotFound {
		return c.Agent.unserved(path, resp.Header)
	}
	var answer struct{ Error string }
	if json.Unmarshal(data, &answer) != nil || answer.Error == "" {
		answer.Error = string(data)
	}
	text := fault.CleanUpTo(answer.Error, maxStderr)
	if text == "" {
		text = "the agent says " + http.StatusText(resp.StatusCode)
	}
	// An agent of another version may not know a field of the request, or allow other values.
	if theirs := resp.Header.Get(page.HeaderVersion); resp.StatusCode == http.StatusBadRequest && theirs != c.Agent.desk.o.Version {
		text += " (the agent is " + compare(strings.TrimSpace(theirs), c.Agent.desk.o.Version) + ")"
	}
	return &Refused{Code: resp.StatusCode, Text: text, Body: data}
}

// Ask is [Client.Do], and decodes the answer as JSON into out. If out is an *[]byte, it gets the
// answer unchanged. If out is nil, the answer is read and dropped. An answer of more than 64 MiB is
// an error.
func (c *Client) Ask(ctx context.Context, method, path string, in, out any) error {
	resp, err := c.Do(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch raw, ok := out.(*[]byte); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return failed(err, "the connection ended in the middle of the answer")
	case err != nil:
		return plain(err)
	case len(data) > maxAnswer:
		return failed(errors.ErrUnsupported, "an answer of more than %d MiB", maxAnswer>>20)
	case ok:
		*raw = data
		return nil
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return failed(err, "cannot decode the answer: %s (the agent is %s)", fault.CleanUpTo(err.Error(), maxStderr),
			compare(strings.TrimSpace(resp.Header.Get(page.HeaderVersion)), c.Agent.desk.o.Version))
	}
	return nil
}
