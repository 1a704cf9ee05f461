package image

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/ebb-agent/ebb/tools/process"
)

// programs are the commands of the image, below cmd/.
var programs = []string{"ebb", "ebb-agent", "ebb-controller"}

// Licences of ebb, as SPDX expressions: of the Go code, and of a program that contains
// the kernel programs (bpf).
const (
	licenceOfGo    = "Apache-2.0"
	licenceWithBPF = licenceOfGo + " AND (GPL-2.0-only OR Apache-2.0)"
)

// withoutBPF lists the programs that contain no kernel programs.
var withoutBPF = []string{"ebb-controller"}

// Architectures lists the architectures that an image can be made for.
var Architectures = []string{"amd64", "arm64"}

// program is one built binary, and its build information.
type program struct {
	name, arch string
	file       string
	sha256     string
	info       *debug.BuildInfo
}

// environment returns the builder's environment, without settings that would change the
// code. -buildvcs=false, which is often in GOFLAGS, would remove the version.
func environment(arch string) []string {
	return append(os.Environ(),
		"CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off",
	)
}

// compile builds all programs of the source tree for an architecture into dir.
func compile(ctx context.Context, source, dir, arch string) ([]program, error) {
	args := []string{"build", "-trimpath", "-buildvcs=auto", "-ldflags=-s -w", "-o", dir + string(filepath.Separator)}
	for _, name := range programs {
		args = append(args, "./cmd/"+name)
	}
	if _, err := run(ctx, source, environment(arch), "go", args...); err != nil {
		return nil, fmt.Errorf("compile for %s: %w", arch, err)
	}
	var list []program
	for _, name := range programs {
		p, err := readProgram(name, arch, filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

var errStrange = errors.New("not the binary that was asked for")

func readProgram(name, arch, file string) (program, error) {
	p := program{name: name, arch: arch, file: file}
	var err error
	if p.info, err = buildinfo.ReadFile(file); err != nil {
		return p, fmt.Errorf("read build information: %w", err)
	}
	if got := p.setting("GOARCH"); got != arch || p.setting("CGO_ENABLED") != "0" {
		return p, fmt.Errorf("%w: %s is for %q, cgo %q", errStrange, name, got, p.setting("CGO_ENABLED"))
	}
	f, err := os.Open(file)
	if err != nil {
		return p, fmt.Errorf("read program: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return p, fmt.Errorf("read program: %w", err)
	}
	p.sha256 = hex.EncodeToString(sum.Sum(nil))
	return p, nil
}

// licence returns the licence of a program of ebb, without those of modules.
func (p program) licence() string {
	if slices.Contains(withoutBPF, p.name) {
		return licenceOfGo
	}
	return licenceWithBPF
}

// setting returns a build setting of the binary, or "".
func (p program) setting(key string) string {
	for _, s := range p.info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// run returns a command's stdout; an error includes its stderr.
func run(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	return process.Output(cmd)
}
