package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ebb-agent/ebb/tools/peers"
)

type object = map[string]any

// attemptTimeout bounds one request of the soak itself.
const attemptTimeout = 8 * time.Second

// client sends requests to one of the API servers, and to the next one when that does not answer.
type client struct {
	http *http.Client
	urls []string
	at   atomic.Int64
}

// ask sends one request.
func (c *client) ask(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	at := c.at.Load()
	err := peers.Request(ctx, c.http, method, c.urls[int(at)%len(c.urls)]+path, in, out)
	var status *peers.StatusError
	if err != nil && !errors.As(err, &status) {
		c.at.CompareAndSwap(at, at+1)
	}
	return err
}

// insist repeats a request until an answer shows what became of it, or ctx ends.
func (c *client) insist(ctx context.Context, method, path string, in, out any) error {
	for {
		err := c.ask(ctx, method, path, in, out)
		if !again(err) || !sleep(ctx, 100*time.Millisecond) {
			return err
		}
	}
}

// again reports whether an answer leaves the result open, so that the request must be repeated.
func again(err error) bool {
	code := codeOf(err)
	return err != nil && (code == 0 || code == http.StatusTooManyRequests || code >= 500)
}

// codeOf returns the status of an answer that is an error, or 0 if there was no answer.
func codeOf(err error) int {
	var status *peers.StatusError
	if errors.As(err, &status) {
		return status.Code
	}
	return 0
}

// bare reports whether an answer is a 404 without an object: the version is not served.
func bare(err error) bool {
	var status *peers.StatusError
	return errors.As(err, &status) && status.Code == http.StatusNotFound && !strings.Contains(status.Body, `"reason":"NotFound","details":{"name"`)
}
