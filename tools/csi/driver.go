package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Config describes a driver, and how it misbehaves.
type Config struct {
	Name   string
	Socket string
	Root   string // directory of the volumes; created if it is missing
	// Token is the required value of the secret "token" of a DeleteVolume; "" requires
	// none.
	Token string
	// Before is called with the short name of each method, before the method runs. Its
	// error is returned instead.
	Before func(ctx context.Context, method string) error
	// After is called when a method has succeeded, before the response is sent. Its error
	// is returned instead.
	After func(ctx context.Context, method string) error
	// NoDelete hides CREATE_DELETE_VOLUME: the controller service only lists volumes.
	NoDelete bool
}

// Driver is a running driver.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	config Config
	server *grpc.Server
	done   chan struct{}

	mu        sync.Mutex
	volumes   map[string]volume // by ID
	published map[string]string // volume IDs by target path
	calls     []string
}

// volume is a volume as requested.
type volume struct {
	name     string
	capacity int64
}

// Start serves until Stop. Directories already in Root are volumes, too.
func Start(c Config) (*Driver, error) {
	if err := os.MkdirAll(c.Root, 0o755); err != nil {
		return nil, err
	}
	d := &Driver{config: c, done: make(chan struct{}), volumes: map[string]volume{}, published: map[string]string{}}
	found, err := os.ReadDir(c.Root)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		d.volumes[f.Name()] = volume{name: strings.TrimPrefix(f.Name(), prefix)}
	}
	if err := os.Remove(c.Socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", c.Socket)
	if err != nil {
		return nil, err
	}
	d.server = grpc.NewServer(grpc.UnaryInterceptor(d.call))
	csi.RegisterIdentityServer(d.server, d)
	csi.RegisterControllerServer(d.server, d)
	csi.RegisterNodeServer(d.server, d)
	go func() {
		defer close(d.done)
		_ = d.server.Serve(listener) // ends with Stop
	}()
	return d, nil
}

// Stop stops serving and aborts running calls. The volumes are kept.
func (d *Driver) Stop() {
	d.server.Stop()
	<-d.done
}

// call records each method call, and runs Before and After around it.
func (d *Driver) call(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	method := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
	d.mu.Lock()
	d.calls = append(d.calls, method)
	d.mu.Unlock()
	if d.config.Before != nil {
		if err := d.config.Before(ctx, method); err != nil {
			return nil, err
		}
	}
	resp, err := handler(ctx, req)
	if d.config.After != nil && err == nil {
		err = d.config.After(ctx, method)
	}
	return resp, err
}

// Calls returns the methods that were called so far, in order.
func (d *Driver) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// prefix is the prefix of the directories' names.
const prefix = "volume-"

// Make makes a volume as CreateVolume does, with a file in it.
func (d *Driver) Make(name string) (id string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if id, err = d.make(name, 0); err != nil {
		return "", err
	}
	return id, os.WriteFile(filepath.Join(d.path(id), "data"), []byte(name), 0o644)
}

func (d *Driver) make(name string, capacity int64) (id string, err error) {
	id = prefix + name
	if err := os.Mkdir(d.path(id), 0o755); err != nil {
		return "", status.Error(codes.Internal, err.Error())
	}
	d.volumes[id] = volume{name, capacity}
	return id, nil
}

// Has reports whether the directory of a volume exists.
func (d *Driver) Has(id string) bool {
	_, err := os.Stat(d.path(id))
	return err == nil
}

// Volumes returns the IDs of all volumes, in order.
func (d *Driver) Volumes() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.volumes))
}

func (d *Driver) path(id string) string { return filepath.Join(d.config.Root, id) }

// missing returns the error for a request that lacks a field.
func missing(field string) error {
	return status.Error(codes.InvalidArgument, fmt.Sprintf("%s is missing", field))
}

func absent(what, id string) error {
	return status.Error(codes.NotFound, fmt.Sprintf("%s %q does not exist", what, id))
}
