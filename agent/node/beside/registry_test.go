package beside

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/ebb-agent/ebb/tools/node"
)

// serve starts a registry that has these images by the last part of their names, and
// returns the prefix of references to them. Whatever runs on this machine may
// pull from it, without credentials: runtimes do not ask for TLS of a loopback address.
func (b *fixture) serve(images map[string]node.Image) string {
	b.Helper()
	type file struct {
		kind string
		body []byte
	}
	files := map[string]file{"/v2/": {"application/json", []byte("{}")}}
	for name, image := range images {
		image.Name = name
		built, err := image.Build()
		b.must(err)
		manifest, err := built.RawManifest()
		b.must(err)
		kind, err := built.MediaType()
		b.must(err)
		digest, err := built.Digest()
		b.must(err)
		for _, tag := range []string{"latest", digest.String()} {
			files["/v2/"+name+"/manifests/"+tag] = file{string(kind), manifest}
		}
		for digest, body := range b.blobs(built) {
			files["/v2/"+name+"/blobs/"+digest] = file{"application/octet-stream", body}
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if _, digest, ok := strings.Cut(r.URL.Path, "/blobs/"); ok {
			w.Header().Set("Docker-Content-Digest", digest)
		}
		w.Header().Set("Content-Type", f.kind)
		w.Header().Set("Content-Length", fmt.Sprint(len(f.body)))
		if r.Method != http.MethodHead {
			_, _ = w.Write(f.body)
		}
	}))
	b.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://") + "/"
}

// blobs are an image's config and layers, by digest.
func (b *fixture) blobs(image v1.Image) map[string][]byte {
	b.Helper()
	config, err := image.RawConfigFile()
	b.must(err)
	name, err := image.ConfigName()
	b.must(err)
	all := map[string][]byte{name.String(): config}
	layers, err := image.Layers()
	b.must(err)
	for _, l := range layers {
		digest, err := l.Digest()
		b.must(err)
		r, err := l.Compressed()
		b.must(err)
		var body bytes.Buffer
		_, err = io.Copy(&body, r)
		b.must(err)
		b.must(r.Close())
		all[digest.String()] = body.Bytes()
	}
	return all
}
