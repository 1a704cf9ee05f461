package program

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// hanging is a metric that waits for a disk.
type hanging struct{ begun, end chan struct{} }

func (hanging) Describe(out chan<- *prometheus.Desc) { out <- prometheus.NewDesc("a", "b", nil, nil) }

func (h hanging) Collect(chan<- prometheus.Metric) {
	h.begun <- struct{}{}
	<-h.end
}

// TestScrapesThatHang: they are a bounded number, and the others are refused at once.
func TestScrapesThatHang(t *testing.T) {
	h := hanging{make(chan struct{}), make(chan struct{})}
	registry := prometheus.NewRegistry()
	registry.MustRegister(h)
	handler := Metrics(registry)
	scrape := func() int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Code
	}
	codes := make(chan int, maxScrapes)
	for range maxScrapes {
		go func() { codes <- scrape() }()
		<-h.begun
	}
	more := make(chan int, 1)
	go func() { more <- scrape() }()
	select {
	case got := <-more:
		if got != http.StatusServiceUnavailable {
			t.Errorf("one scrape too many got %d", got)
		}
	case <-h.begun:
		t.Error("one scrape too many was begun")
	}
	close(h.end)
	for range maxScrapes {
		if got := <-codes; got != http.StatusOK {
			t.Errorf("a scrape got %d after the disk answered", got)
		}
	}
}

// pipes is a listener of connections in memory, which hold nothing that was not read.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (pipes) Addr() net.Addr { return &net.UnixAddr{} }

// TestScrapesThatNobodyReads: they hold up the others for a while only.
func TestScrapesThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "a", Help: "more than a response buffers"}, []string{"n"})
		registry.MustRegister(gauge)
		for n := range 1000 {
			gauge.WithLabelValues(fmt.Sprint(n)).Set(1)
		}
		ctx, cancel := context.WithCancel(t.Context())
		listener, ended := make(pipes), make(chan error)
		go func() { ended <- Serve(ctx, listener, Metrics(registry)) }()
		ask := func() net.Conn {
			client, server := net.Pipe()
			t.Cleanup(func() { client.Close() })
			listener <- server
			if _, err := fmt.Fprint(client, "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			return client
		}
		status := func() int {
			answer, err := http.ReadResponse(bufio.NewReader(ask()), nil)
			if err != nil {
				t.Fatal(err)
			}
			return answer.StatusCode
		}
		for range maxScrapes {
			ask()
		}
		synctest.Wait()
		if got := status(); got != http.StatusServiceUnavailable {
			t.Errorf("one scrape too many got %d", got)
		}
		time.Sleep(scrapeMost)
		synctest.Wait()
		if got := status(); got != http.StatusOK {
			t.Errorf("a scrape got %d after the others were given up", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
