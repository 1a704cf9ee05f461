package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ebb-agent/ebb/tools/peers"
)

// perTransaction is how many objects are written at a time: etcd's default limit.
const perTransaction = 128

// put is an operation of a transaction, as etcd's JSON gateway wants it.
type put struct {
	Put struct {
		Key   []byte `json:"key"`
		Value []byte `json:"value"`
	} `json:"requestPut"`
}

// load writes objects into etcd, past the API server, which must not run: a million
// creations would take half an hour, and objects of one transaction share a version,
// which no watch should see. The API server cannot tell them from its own.
func load(ctx context.Context, cp *peers.ControlPlane, objects func(yield func(runtime.Object) bool)) error {
	client := &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: loaders,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", cp.EtcdSocket())
		},
	}}
	defer client.CloseIdleConnections()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(loaders)
	batch := make([]put, 0, perTransaction)
	flush := func() {
		full := batch
		batch = make([]put, 0, perTransaction)
		group.Go(func() error { return commit(ctx, client, full) })
	}
	for o := range objects {
		key, value, err := stored(o)
		if err != nil {
			return err
		}
		var p put
		p.Put.Key, p.Put.Value = []byte(key), value
		if batch = append(batch, p); len(batch) == perTransaction {
			flush()
		}
		if ctx.Err() != nil {
			break
		}
	}
	if len(batch) > 0 {
		flush()
	}
	return group.Wait()
}

// loaders are how many transactions are on their way.
const loaders = 4

func commit(ctx context.Context, client *http.Client, batch []put) error {
	body, err := json.Marshal(map[string]any{"success": batch})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://etcd/v3/kv/txn", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	var done struct{ Succeeded bool }
	if err := json.Unmarshal(answer, &done); err != nil || resp.StatusCode != http.StatusOK || !done.Succeeded {
		return fmt.Errorf("write to etcd: %s: %.200s", resp.Status, answer)
	}
	return nil
}
