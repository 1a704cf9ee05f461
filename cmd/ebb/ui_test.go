package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// The printed address leads to pages of real answers over the real way to an agent, and the command ends as it is told.
func TestUI(t *testing.T) {
	newCluster(t, "worker-1", "worker-2")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, strings.Fields("ui"), w, io.Discard)
		w.CloseWithError(err)
		ended <- err
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/\w{20,}`).FindString(line)
	var browser http.Client
	defer browser.CloseIdleConnections()
	get := func(url string) (int, string) {
		t.Helper()
		resp, err := browser.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if code, _ := get(address[:strings.LastIndex(address, "/")] + "/node/worker-1"); code != http.StatusUnauthorized {
		t.Errorf("without the token: %d", code)
	}
	for path, want := range map[string]string{
		"/": `/node/worker-2"`, "/node/worker-1": "docker.io/library/postgres:15", "/node/worker-1/image?id=busybox": "Rules, in their order",
	} {
		if code, body := get(address + path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, without %q:\n%s", path, code, want, body)
		}
	}
	if code, body := get(address + "/node/nobody"); code != http.StatusBadGateway || !strings.Contains(body, "no agent on a node") {
		t.Errorf("a node that there is not: %d\n%s", code, body)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}
