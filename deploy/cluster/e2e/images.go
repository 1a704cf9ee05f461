package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/ebb-agent/ebb/deploy"
	"github.com/ebb-agent/ebb/tools/cluster"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/peers"
)

const (
	mib = 1 << 20

	diskBytes = 2048 * mib
	appImage  = "node.test/app:1"

	// No container uses these; they fill the disk.
	bigOnes  = 5
	bigBytes = 64 * mib

	// Containers use these while the agent is replaced.
	loadOnes = 4

	repository = registryHost + "/team/ebb"
	nextImage  = repository + ":next"
)

func big(i int) string       { return fmt.Sprintf("node.test/big-%d:1", i) }
func loadImage(i int) string { return fmt.Sprintf("node.test/load-%d:1", i) }

// writeImages writes archives of the images that, besides ebb's, a registry would serve.
func writeImages(dir string) error {
	images := []node.Image{{Name: appImage, Layers: []node.Layer{{Seed: "app", Bytes: mib}}}}
	for i := range bigOnes {
		seed := fmt.Sprintf("big-%d", i)
		images = append(images, node.Image{Name: big(i), NoBusybox: true, Layers: []node.Layer{{Seed: seed, Bytes: bigBytes}}})
	}
	if err := writeArchive(filepath.Join(dir, "images.tar"), true, images); err != nil {
		return err
	}
	images = nil
	for i := range loadOnes {
		seed := fmt.Sprintf("load-%d", i)
		images = append(images, node.Image{Name: loadImage(i), Layers: []node.Layer{{Seed: seed, Bytes: mib}}})
	}
	return writeArchive(filepath.Join(dir, "load.tar"), false, images)
}

func writeArchive(path string, sandbox bool, images []node.Image) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write images: %w", err)
	}
	if err := errors.Join(node.WriteArchive(f, sandbox, images...), f.Close()); err != nil {
		return fmt.Errorf("write images: %w", err)
	}
	return nil
}

// registryHost is the registry name in the pages.
const registryHost = "registry.example"

// serveRegistry runs a registry at registryHost, which every program of the machine can
// resolve and trusts.
func (b *fixture) serveRegistry() {
	authority := need(peers.NewAuthority("e2e"))
	creds := need(authority.Server(registryHost, registryHost))
	pair := need(tls.X509KeyPair(creds.Cert, creds.Key))
	const roots = "/etc/ssl/certs"
	must(os.MkdirAll(roots, 0o755))
	must(os.WriteFile(filepath.Join(roots, "e2e-registry.pem"), creds.CA, 0o644))
	hosts := need(os.OpenFile("/etc/hosts", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644))
	_, err := fmt.Fprintf(hosts, "\n%s %s\n", cluster.NodeIP, registryHost)
	must(errors.Join(err, hosts.Close()))
	l := need(tls.Listen("tcp", cluster.NodeIP+":443", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}))
	silent := log.New(io.Discard, "", 0)
	server := &http.Server{Handler: registry.New(registry.Logger(silent)), ErrorLog: silent, ReadHeaderTimeout: patience}
	go server.Serve(l) // as long as this process lives
}

// nextVersion puts another version of ebb's image into the registry and onto the node. It
// differs only in a label, so the runtime treats it as another image.
func (b *fixture) nextVersion() {
	chart := need(os.ReadFile(deploy.ChartFile))
	from := need(name.NewTag(repository + ":" + need(deploy.ReleaseOf(chart))))
	image := need(remote.Image(from, remote.WithContext(b)))
	config := need(image.ConfigFile()).DeepCopy()
	if config.Config.Labels == nil {
		config.Config.Labels = map[string]string{}
	}
	config.Config.Labels["org.opencontainers.image.version"] = "next"
	image = need(mutate.ConfigFile(image, config))
	must(remote.Write(need(name.NewTag(nextImage)), image, remote.WithContext(b)))
	need(b.run("ctr", "--namespace", "k8s.io", "images", "pull", nextImage))
}
