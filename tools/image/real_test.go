package image

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/deploy"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/buildtest"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
	"github.com/ebb-agent/ebb/tools/process"
)

// TestImage makes the image of the last commit twice, in two clones, by the
// command as it is in the working tree: without the race detector, under which
// packing takes minutes.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	tool := buildtest.Program(t, "tools/image/cmd/image")
	top := strings.TrimSpace(command(t, ".", "git", "rev-parse", "--show-toplevel"))
	outputs := make([]string, 2)
	for i, name := range []string{"first", "a/second/clone"} {
		clone := filepath.Join(dir, name)
		outputs[i] = clone + "-image"
		command(t, ".", "git", "clone", "-q", top, clone)
		t.Log(command(t, clone, tool, "--output", outputs[i]))
	}
	made := readMade(t, outputs[0])
	t.Run("reproducible", func(t *testing.T) {
		for _, name := range []string{ArchiveFile, SBOMFile, MadeFile} {
			if !bytes.Equal(readFile(t, outputs[0], name), readFile(t, outputs[1], name)) {
				t.Errorf("two builds of one commit make two different %s", name)
			}
		}
	})
	t.Run("content", func(t *testing.T) { checkContent(t, outputs[0], made) })
	for _, flavor := range []node.Flavor{node.Debian, node.V2} {
		t.Run(string(flavor), func(t *testing.T) {
			runImage(t, flavor, filepath.Join(outputs[1], ArchiveFile), made)
		})
	}
}

// checkContent unpacks the image of each architecture, and holds its files against
// what they should be.
func checkContent(t *testing.T, output string, made Made) {
	dir := t.TempDir()
	unpackTar(t, bytes.NewReader(readFile(t, output, ArchiveFile)), dir)
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := v1.NewHash(made.Digest)
	if err != nil {
		t.Fatal(err)
	}
	index, err := top.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != len(Architectures) {
		t.Fatalf("index: %+v, %v", manifest, err)
	}
	var list []program
	for i, arch := range Architectures {
		d := manifest.Manifests[i]
		img, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if got := made.Images[i]; got.Platform != "linux/"+arch || got.Digest != d.Digest.String() || got.Compressed > MaxCompressed {
			t.Errorf("made %+v, in the index is %+v", got, d)
		}
		root := filepath.Join(dir, arch)
		unpackTar(t, mutate.Extract(img), root)
		list = append(list, checkRoot(t, root, arch, made)...)
		if inside := readFile(t, root, sbomFile); !bytes.Equal(inside, readFile(t, output, SBOMFile)) {
			t.Error("the SBOM in the image is not the one beside it")
		}
	}
	checkSBOM(t, readFile(t, output, SBOMFile), list)
	for _, m := range allModules(list) {
		if slices.Contains(toolModules, m.path) {
			t.Errorf("%s is linked into a program: it is for tools and tests", m.path)
		}
	}
}

// toolModules are dependencies of this repository that no program may have.
var toolModules = []string{"github.com/google/go-containerregistry", "github.com/spdx/tools-golang", "github.com/google/go-cmp", "pgregory.net/rapid"}

// checkRoot looks at the files of one architecture, and returns its programs.
func checkRoot(t *testing.T, root, arch string, made Made) (list []program) {
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for _, name := range programs {
		file := filepath.Join(root, binDir, name)
		p, err := readProgram(name, arch, file)
		if err != nil {
			t.Fatal(err)
		}
		if got := deploy.Version(deploy.Release(), p.info); got != made.Version || p.setting("vcs.revision") != made.Revision {
			t.Errorf("%s is of %s, %s; the image has %s, %s", name, got, p.setting("vcs.revision"), made.Version, made.Revision)
		}
		e, err := elf.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		libraries, err := e.ImportedLibraries()
		if err != nil || len(libraries) > 0 || e.Section(".interp") != nil || e.Machine != machines[arch] {
			t.Errorf("%s for %s: %s with libraries %v, %v", name, arch, e.Machine, libraries, err)
		}
		e.Close()
		list = append(list, p)
	}
	var files []string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if name, _ := filepath.Rel(root, path); err == nil && !entry.IsDir() {
			files = append(files, name)
		}
		return err
	})
	want := "etc/group etc/passwd usr/bin/ebb usr/bin/ebb-agent usr/bin/ebb-controller " + licence + " " + licenceGPL + " " + thirdParty + " " + sbomFile
	if got := strings.Join(files, " "); err != nil || got != want {
		t.Errorf("files %s, %v; want %s", got, err, want)
	}
	if terms := readFile(t, root, thirdParty); !bytes.Contains(terms, []byte("github.com/cilium/ebpf v")) || !bytes.Contains(terms, []byte("golang.org/x/sys v")) {
		t.Error("licences of third parties are not in the image")
	}
	return list
}

// runImage imports the archive as people do, and runs each program.
func runImage(t *testing.T, flavor node.Flavor, archive string, made Made) {
	n := nodetest.Start(t, node.Config{Containerd: flavor})
	command(t, ".", ctr(t, flavor), "--address", n.Socket(), "-n", node.CRINamespace, "images", "import", archive)
	_, images := n.CRI()
	status := awaitImage(t, images, made.Name)
	if uid := status.GetUid().GetValue(); uid != Nonroot {
		t.Errorf("CRI would run it as user %d", uid)
	}
	if digests := status.GetRepoDigests(); len(digests) > 0 && !strings.HasSuffix(digests[0], made.Digest) {
		t.Errorf("CRI knows it by %v, its digest is %s", digests, made.Digest)
	}
	for _, name := range programs {
		c, err := n.Run(t.Context(), node.RunSpec{ID: name, Image: made.Name, Args: []string{"/usr/bin/" + name, "--version"}})
		if err != nil {
			t.Fatal(err)
		}
		code, err := c.Wait(t.Context())
		if err != nil || code != 0 {
			t.Errorf("%s ended with %d, %v", name, code, err)
		}
		if out, err := c.Output(); err != nil || !strings.Contains(out, made.Version) {
			t.Errorf("%s --version prints %q, %v", name, out, err)
		}
	}
	_, err := n.Run(t.Context(), node.RunSpec{ID: "shell", Image: made.Name, Args: []string{"/bin/sh"}})
	if err == nil {
		t.Error("there is a shell in the image")
	}
}

// awaitImage returns the status of an image from CRI. CRI learns of imports by events, some
// time after, and has nothing to wait on.
func awaitImage(t *testing.T, images runtimeapi.ImageServiceClient, name string) (image *runtimeapi.Image) {
	t.Helper()
	await.Holds(t, 30*time.Second, "CRI to know the image", func(ctx context.Context) error {
		r, err := images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		if err != nil {
			t.Fatal(err)
		}
		if image = r.Image; image == nil {
			return errors.New("it does not")
		}
		return nil
	})
	return image
}

// commandTimeout is for the slowest: compiling everything for another architecture.
const commandTimeout = 15 * time.Minute

// ctr is containerd's own command, of the node's containerd.
func ctr(t *testing.T, flavor node.Flavor) string {
	t.Helper()
	if flavor == node.Debian {
		return "ctr"
	}
	script, err := process.Find("tools/containerd/build")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(command(t, ".", script)), "ctr")
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("%s %v: %v: %s", name, args, err, exit.Stderr)
		}
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return string(out)
}

func readFile(t *testing.T, path ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func readMade(t *testing.T, output string) (made Made) {
	t.Helper()
	if err := json.Unmarshal(readFile(t, output, MadeFile), &made); err != nil {
		t.Fatal(err)
	}
	return made
}
