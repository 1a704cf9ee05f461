package metadata

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestProxy: only one that the configuration names is asked, and an error names it.
func TestProxy(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	config := &rest.Config{Host: strings.Replace(server.URL, "127.0.0.1", "0.0.0.0", 1)} // loopback has no proxy
	ask := func() error {
		c, err := New(config, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.Send(t.Context(), http.MethodDelete, "/apis/x", nil, nil, nil)
	}
	if err := ask(); err != nil {
		t.Errorf("by way of the environment's proxy: %v", err)
	}
	config.Proxy = http.ProxyFromEnvironment
	if err := ask(); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "proxyconnect tcp: dial tcp 127.0.0.1:1") {
		t.Errorf("the proxy is not named: %v", err)
	}
}

// TestSend: what is asked, what of the answer is read, and what an error contains.
func TestSend(t *testing.T) {
	var asked string
	var reply func(w http.ResponseWriter)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = strings.Join([]string{r.Method, r.URL.String(), r.Header.Get("Content-Type"), string(body)}, " ")
		w.Header().Set("Content-Type", "application/json")
		reply(w)
	}))
	defer server.Close()
	c, err := New(&rest.Config{Host: server.URL}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	reply = func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"name":"a"}`)
	}
	var to struct{ Name string }
	err = c.Send(t.Context(), http.MethodPatch, "/apis/x", url.Values{"force": {"true"}}, map[string]int{"b": 1}, &to)
	if want := `PATCH /apis/x?force=true application/apply-patch+yaml {"b":1}`; err != nil || to.Name != "a" || asked != want {
		t.Errorf("%v, %+v: %s", err, to, asked)
	}
	if err := c.Send(t.Context(), http.MethodDelete, "/apis/x", nil, nil, nil); err != nil || asked != "DELETE /apis/x  " || Answered(err) != 0 {
		t.Errorf("%v: %s", err, asked)
	}
	reply = func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","message":"may not"}`)
	}
	err = c.Send(t.Context(), http.MethodPost, "/apis/x", nil, map[string]int{}, nil)
	if !errors.Is(err, ErrForbidden) || Answered(err) != http.StatusForbidden || !strings.Contains(err.Error(), "POST /apis/x: ") || !strings.Contains(err.Error(), "may not") {
		t.Error(err)
	}
	reply = func(w http.ResponseWriter) { _, _ = io.WriteString(w, `<html>`) }
	if err := c.Send(t.Context(), http.MethodGet, "/apis/x", nil, nil, &to); !errors.Is(err, ErrMalformed) || Answered(err) != 0 {
		t.Error(err)
	}
	server.Close()
	if err := c.Send(t.Context(), http.MethodGet, "/apis/x", nil, nil, nil); !errors.Is(err, ErrUnavailable) || Answered(err) != 0 {
		t.Error(err)
	}
}
