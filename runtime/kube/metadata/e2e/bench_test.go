package e2e

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/tools/peers"
)

// workers does a thing n times, with so many at once.
func workers(t testing.TB, many, n int, do func(i int) error) {
	t.Helper()
	next := make(chan int)
	var wg sync.WaitGroup
	for range many {
		wg.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					t.Errorf("number %d: %v", i, err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// fill makes so many config maps as a program would: with labels, annotations
// and an owner. It returns their UIDs.
func (b *fixture) fill(t testing.TB, namespace string, n int) (uids, versions []string) {
	t.Helper()
	path := "/api/v1/namespaces/" + namespace + "/configmaps"
	uids, versions = make([]string, n), make([]string, n)
	workers(t, 16, n, func(i int) error {
		var out struct {
			Metadata struct{ UID, ResourceVersion string }
		}
		o := configMap(fmt.Sprintf("map-%06d", i), object{
			"labels":      object{"app.kubernetes.io/name": "bench", "app.kubernetes.io/part-of": "tide"},
			"annotations": object{"example.com/checksum": strings.Repeat("0123456789abcdef", 4)},
			"ownerReferences": []any{object{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
				"uid": "11111111-2222-3333-4444-555555555555", "controller": true, "blockOwnerDeletion": true}}})
		o["data"] = object{"key": "value"}
		err := b.Ask(t.Context(), http.MethodPost, path, o, &out)
		uids[i], versions[i] = out.Metadata.UID, out.Metadata.ResourceVersion
		return err
	})
	return uids, versions
}

// cpu is what this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkList lists 20,000 config maps into a sink that keeps nothing.
func BenchmarkList(b *testing.B) {
	const n = 20_000
	fixture := newFixture(b, peers.Config{})
	fixture.fill(b, "default", n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	used, began := cpu(), time.Now()
	b.ResetTimer()
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		listed := 0
		f := fixture.client.Follow(configMaps, nil, func(_ context.Context, batch []metadata.Event) error {
			for i := range batch {
				switch batch[i].Kind {
				case metadata.Observed:
					listed++
				case metadata.Synced:
					cancel()
				}
			}
			return nil
		})
		if err := f.Run(ctx); err != nil {
			b.Fatal(err)
		}
		if listed < n {
			b.Fatalf("%d objects listed", listed)
		}
		cancel()
	}
	took, used := time.Since(began), cpu()-used
	runtime.ReadMemStats(&after)
	all := float64(b.N * n)
	b.ReportMetric(all/took.Seconds(), "objects/s")
	b.ReportMetric(float64(used.Nanoseconds())/all, "cpu-ns/object")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/all, "allocs/object")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/all, "B/object")
}

// BenchmarkDelete deletes 5,000 config maps with 32 workers: through Do, and by
// the least that a program could send.
func BenchmarkDelete(b *testing.B) {
	const n = 5_000
	fixture := newFixture(b, peers.Config{})
	for _, way := range []struct {
		name   string
		delete func(ctx context.Context, o gc.Coordinates, version string) error
	}{
		{"do", func(ctx context.Context, o gc.Coordinates, version string) error {
			out := fixture.client.Do(ctx, gc.Action{Verb: gc.Delete, Object: o, Policy: gc.Background, ResourceVersion: version}, true)
			return out.Err
		}},
		{"bare", func(ctx context.Context, o gc.Coordinates, version string) error {
			return fixture.Ask(ctx, http.MethodDelete, mapsPath+"/"+o.Name, object{"propagationPolicy": "Background",
				"preconditions": object{"uid": o.UID, "resourceVersion": version}}, nil)
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			var took, used time.Duration
			for range b.N {
				uids, versions := fixture.fill(b, "default", n)
				began, was := time.Now(), cpu()
				workers(b, 32, n, func(i int) error {
					return way.delete(b.Context(), at(configMaps, fmt.Sprintf("map-%06d", i), uids[i]), versions[i])
				})
				took, used = took+time.Since(began), used+cpu()-was
			}
			all := float64(b.N * n)
			b.ReportMetric(all/took.Seconds(), "deletes/s")
			b.ReportMetric(float64(used.Microseconds())/all, "cpu-us/delete")
		})
	}
}
