package program

import (
	"net/http"
	"net/http/httptest"
	"testing"

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
	if got := scrape(); got != http.StatusServiceUnavailable {
		t.Errorf("one scrape too many got %d", got)
	}
	close(h.end)
	for range maxScrapes {
		if got := <-codes; got != http.StatusOK {
			t.Errorf("a scrape got %d after the disk answered", got)
		}
	}
}
