package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// maxScrapes is how many scrapes may be served at once. A scrape that reads a disk that hangs never
	// ends, and holds a thread.
	maxScrapes = 8
	// scrapeMost is how long after its start a scrape may be written. A client that does not read must
	// not hold a place for ever.
	scrapeMost = 30 * time.Second
)

// Metrics serves scrapes of r. If a metric cannot be collected, the others are still served.
// promhttp_metric_handler_errors_total counts such scrapes. A scrape beside maxScrapes others gets 503.
func Metrics(r *prometheus.Registry) http.Handler {
	scrape := promhttp.HandlerFor(r, promhttp.HandlerOpts{Registry: r, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes})
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(scrapeMost)) // only a recorder cannot
		scrape.ServeHTTP(w, q)
	})
}

// Serve serves at listener until ctx is done, and closes it. Requests in flight then have a second
// to finish. If the server stops before ctx is done, the error has the reason. Otherwise it is nil.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := newServer(handler)
	return serve(ctx, server, func() error { return server.Serve(listener) })
}

func newServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
}

// serve calls run until ctx is done, or until run returns by itself.
func serve(ctx context.Context, server *http.Server, run func() error) error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	select {
	case err := <-done:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return server.Close()
	}
	<-done
	return nil
}

// ListenPrivately makes a unix socket that only this user can connect to. It replaces a socket that
// a dead process left behind, and creates the directory if it is missing.
func ListenPrivately(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		if conn, err := net.Dial("unix", path); err == nil {
			return nil, errors.Join(fmt.Errorf("%s: another process serves it", path), conn.Close())
		}
		// A process that is just ending may have removed its socket.
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	// Until this call, the umask decides who can connect.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}
