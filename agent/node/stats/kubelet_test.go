package stats

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type settings struct {
	percent int
	err     error
}

// answers is a kubelet.
type answers struct{ atomic.Pointer[settings] }

func (a *answers) ImageGCHighThreshold(context.Context) (int, error) {
	s := a.Load()
	return s.percent, s.err
}

// TestKubelet: the kubelet's answer counts, and until the first one what is configured.
func TestKubelet(t *testing.T) {
	t.Run("not configured", func(t *testing.T) { testKubelet(t, 0, nil) })
	t.Run("configured", func(t *testing.T) { testKubelet(t, 90, []float64{0.9}) })
}

func testKubelet(t *testing.T, configured int, first []float64) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		registry, from := prometheus.NewRegistry(), &answers{}
		from.Store(&settings{err: errors.New("403")})
		k := NewKubelet(registry, configured, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- k.Run(ctx, from) }()
		for _, next := range []struct {
			settings
			want []float64
		}{
			{settings{100, nil}, first}, // before it there was no answer
			{settings{0, errors.New("500")}, []float64{1}},
			{settings{85, nil}, []float64{1}},
			{settings{0, errors.New("500")}, []float64{0.85}},
		} {
			synctest.Wait()
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			var have []float64
			for _, f := range families {
				have = append(have, f.GetMetric()[0].GetGauge().GetValue())
			}
			if !slices.Equal(have, next.want) {
				t.Errorf("%v, not %v", have, next.want)
			}
			from.Store(&next.settings)
			if next.err == nil { // the question before failed
				time.Sleep(kubeletRetry)
			} else {
				time.Sleep(KubeletPause)
			}
		}
		synctest.Wait()
		if n := strings.Count(log.String(), "threshold is not known"); n != 3 {
			t.Errorf("three failures in a row of their own are logged %d times:\n%s", n, &log)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
