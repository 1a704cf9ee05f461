package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/soak/oracle"
	"github.com/ebb-agent/ebb/tools/peers"
)

const (
	registry = "/registry/"
	page     = 1000
)

// etcd is a client of etcd's JSON gateway: it needs no library.
type etcd struct {
	client *http.Client
}

func (e *etcd) call(ctx context.Context, path string, in, out any) error {
	return peers.Request(ctx, e.client, http.MethodPost, "http://etcd"+path, in, out)
}

// pair is a key and its value, which the gateway has in base64 as encoding/json does.
type pair struct {
	Key, Value  []byte
	ModRevision int64 `json:"mod_revision,string"`
}

type header struct {
	Revision int64 `json:",string"`
}

// revision returns etcd's present revision.
func (e *etcd) revision(ctx context.Context) (int64, error) {
	var out struct{ Header header }
	err := e.call(ctx, "/v3/kv/range", object{"key": []byte("a"), "count_only": true}, &out)
	return out.Header.Revision, err
}

// objects returns all that the API servers have stored, at one revision.
func (e *etcd) objects(ctx context.Context) (rev int64, objects []*oracle.Object, err error) {
	from, end := []byte(registry), []byte("/registry0")
	for {
		var out struct {
			Header header
			KVs    []pair
			More   bool
		}
		in := object{"key": from, "range_end": end, "limit": page}
		if rev > 0 {
			in["revision"] = rev
		}
		if err := e.call(ctx, "/v3/kv/range", in, &out); err != nil {
			return 0, nil, err
		}
		rev = cmp.Or(rev, out.Header.Revision)
		for _, kv := range out.KVs {
			if x, err := decode(kv); err != nil {
				return 0, nil, err
			} else if x != nil {
				objects = append(objects, x)
			}
			from = append(bytes.Clone(kv.Key), 0)
		}
		if !out.More {
			return rev, objects, nil
		}
	}
}

// decode decodes an object. It returns nil for a value that is none, such as a range of ports.
func decode(kv pair) (*oracle.Object, error) {
	key := string(kv.Key)
	if !strings.HasPrefix(key, registry) {
		return nil, nil
	}
	x, err := oracle.Decode(key, kv.Value)
	if err != nil && !strings.Contains(key, "/soak-") || err == nil && (x.UID == "" || x.Kind == "") {
		return nil, nil // not stored as JSON, or not an object
	}
	return x, err
}

// compact makes etcd forget all before a revision.
func (e *etcd) compact(ctx context.Context, rev int64) error {
	return e.call(ctx, "/v3/kv/compaction", object{"revision": rev, "physical": true}, nil)
}

func (e *etcd) defragment(ctx context.Context) error {
	return e.call(ctx, "/v3/maintenance/defragment", object{}, nil)
}

// feed reports everything from a revision on to the oracle, until ctx ends.
func (e *etcd) feed(ctx context.Context, from int64, o *oracle.Oracle) error {
	everything := []byte{0}
	body, err := json.Marshal(object{"create_request": object{"key": everything, "range_end": everything, "start_revision": from}})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://etcd/v3/watch", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return fmt.Errorf("watch etcd: %w", err)
	}
	defer resp.Body.Close()
	in := json.NewDecoder(resp.Body)
	for {
		var out struct {
			Result struct {
				Canceled     bool
				CancelReason string `json:"cancel_reason"`
				Events       []struct {
					Type string
					KV   pair
				}
			}
			Error json.RawMessage
		}
		if err := in.Decode(&out); err != nil {
			return fmt.Errorf("watch etcd: %w", err)
		}
		if out.Result.Canceled || out.Error != nil {
			return fmt.Errorf("watch etcd: canceled: %s %s", out.Result.CancelReason, out.Error)
		}
		now := time.Now()
		for _, ev := range out.Result.Events {
			if err := record(o, now, ev.Type == "DELETE", ev.KV); err != nil {
				return err
			}
		}
	}
}

func record(o *oracle.Oracle, now time.Time, deleted bool, kv pair) error {
	if deleted {
		o.Delete(kv.ModRevision, now, string(kv.Key))
		return nil
	}
	x, err := decode(kv)
	if err != nil {
		return err
	}
	if x == nil {
		o.Passed(kv.ModRevision)
		return nil
	}
	o.Put(kv.ModRevision, now, x)
	return nil
}

// watcher feeds the oracle, one epoch after the other.
type watcher struct {
	etcd   *etcd
	oracle *oracle.Oracle
	failed func(error)
	ctx    context.Context // of the whole soak
	stop   func()
}

// begin begins an epoch with what etcd has now.
func (w *watcher) begin() error {
	rev, objects, err := w.etcd.objects(w.ctx)
	if err != nil {
		return fmt.Errorf("read etcd: %w", err)
	}
	w.oracle.Restore(rev, time.Now(), objects)
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.etcd.feed(ctx, rev+1, w.oracle); ctx.Err() == nil {
			w.failed(err)
		}
	}()
	w.stop = func() { cancel(); <-done }
	return nil
}

// catchUp waits until the oracle knows all that is in etcd now, and returns the
// revision.
func (w *watcher) catchUp(ctx context.Context) (int64, error) {
	rev, err := w.etcd.revision(ctx)
	if err != nil {
		return 0, err
	}
	return rev, poll(ctx, func() (bool, error) { return w.oracle.Revision() >= rev, nil })
}

func poll(ctx context.Context, done func() (bool, error)) error {
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) { return done() })
}

// sleep reports whether it slept for the whole time.
func sleep(ctx context.Context, d time.Duration) bool { return benchmark.Pause(ctx, d) == nil }

// replace puts a copy of the backup in place of etcd's directory.
func replace(dir, backup string) error {
	return errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(backup)), os.Chmod(dir, 0o700))
}
