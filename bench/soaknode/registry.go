package main

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// serveRegistry runs a registry on a port of the loopback interface, where containerd expects plain
// HTTP. Its blobs are beside the node's disk.
func (b *fixture) serveRegistry() error {
	dir := filepath.Join(b.node.Dir(), "registry")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	silent := log.New(io.Discard, "", 0)
	b.registry = &http.Server{
		Addr:     l.Addr().String(),
		Handler:  registry.New(registry.Logger(silent), registry.WithBlobHandler(registry.NewDiskBlobHandler(dir))),
		ErrorLog: silent, ReadHeaderTimeout: time.Minute,
	}
	go b.registry.Serve(l) // until it is closed
	return nil
}

// fetch pulls an image from the registry, as a kubelet does.
func (b *fixture) fetch(ctx context.Context, p *pulled) (id string, err error) {
	if !p.pushed {
		built, err := p.Build()
		if err != nil {
			return "", err
		}
		to, err := name.NewTag(p.Name)
		if err != nil {
			return "", err
		}
		if err := remote.Write(to, built, remote.WithContext(ctx)); err != nil {
			return "", err
		}
		p.pushed = true
	}
	_, images := b.node.CRI()
	r, err := images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: p.Name}})
	return r.GetImageRef(), err
}
