package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/process"
)

// goDirs are the variables that name Go's build cache and module cache. The inner machine
// has no network, and a different home directory.
var goDirs = []string{"GOCACHE", "GOMODCACHE"}

// keepGo sets the variables of goDirs, and GOENV, in the environment of the inner
// process. It returns the directories.
func keepGo(ctx context.Context) (dirs []string, err error) {
	const settings = "GOENV"
	text, err := process.Output(exec.CommandContext(ctx, "go", append([]string{"env", "-json", settings}, goDirs...)...))
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	if err := json.Unmarshal([]byte(text), &values); err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	for _, name := range goDirs {
		dirs = append(dirs, values[name])
	}
	for name, value := range values {
		err = errors.Join(err, os.Setenv(name, value))
	}
	return dirs, err
}

// ofMake lists variables by which make makes its children print directories.
var ofMake = []string{"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}

// makeWorkplace makes what a reader of the pages has: a writable copy of the tree, and
// the programs on the PATH. Overlays keep the real tree and Go's real cache unchanged.
func (b *fixture) makeWorkplace() {
	const dir = "/run/e2e/workplace"
	must(os.MkdirAll(dir, 0o755))
	must(unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=3g"))
	wd := need(os.Getwd())
	b.tree = overlay(dir, "ebb", wd)
	cache := overlay(dir, "cache", os.Getenv("GOCACHE"))
	tmp := filepath.Join(dir, "tmp")
	must(os.Mkdir(tmp, 0o755))
	programs := []string{filepath.Join(b.tree, "bin"), absDir(b.o.helm), b.o.binaries}
	for _, e := range b.env {
		if name, _, _ := strings.Cut(e, "="); !slices.Contains(ofMake, name) {
			b.shellEnv = append(b.shellEnv, e)
		}
	}
	b.shellEnv = append(b.shellEnv,
		"PATH="+strings.Join(programs, ":")+":"+os.Getenv("PATH"), "GOCACHE="+cache, "TMPDIR="+tmp,
		// Only this node's architecture: the other one would take as long again.
		"IMAGE_FLAGS=--arch="+runtime.GOARCH)
}

// overlay mounts a writable overlay of a directory, and returns its path.
func overlay(dir, name, lower string) string {
	path := filepath.Join(dir, name)
	upper, work := path+".upper", path+".work"
	must(errors.Join(os.Mkdir(path, 0o755), os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755)))
	must(unix.Mount("overlay", path, "overlay", unix.MS_NOSUID|unix.MS_NODEV,
		"lowerdir="+lower+",upperdir="+upper+",workdir="+work))
	return path
}
