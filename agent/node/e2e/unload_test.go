package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/ebb-agent/ebb/tools/node"
)

// TestUnload: ebb-agent --unload leaves nothing of what an agent, killed, has
// left in the kernel; but it takes nothing from one that runs.
func TestUnload(t *testing.T) {
	t.Parallel()
	b := newBed(t, node.Debian, plain("a", layerBytes))
	b.config.Writers.Top = 5 // everything there is
	b.start()
	b.use("a")
	b.awaitOrder()
	programs := b.pinnedPrograms()

	if out, err := b.unload(); err == nil || !strings.Contains(out, "in use by another process") {
		t.Errorf("unload beside an agent: %v: %s", err, out)
	}
	b.use("a")
	b.awaitOrder()
	b.kill()
	for _, id := range programs {
		if err := isGone(id); err == nil {
			t.Errorf("program %d went with the agent", id)
		}
	}
	for range 2 {
		if out, err := b.unload(); err != nil {
			t.Fatalf("unload: %v: %s", err, out)
		}
	}
	if _, err := os.Lstat(b.config.Kernel.PinDirectory); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("pins after unload: %v", err)
	}
	for _, id := range programs {
		b.eventually(fmt.Sprint("the end of program ", id), func() error { return isGone(id) })
	}
}

func (b *bed) unload() (said string, err error) {
	out, err := exec.CommandContext(b.ctx, b.binary, "--unload", "--config", filepath.Join(b.node.Dir(), "agent.yaml")).CombinedOutput()
	return string(out), err
}

// pinnedPrograms are those that record for the agent.
func (b *bed) pinnedPrograms() (ids []ebpf.ProgramID) {
	b.Helper()
	pins, err := filepath.Glob(filepath.Join(b.config.Kernel.PinDirectory, "*", "links", "*"))
	b.must(err)
	for _, pin := range pins {
		l, err := link.LoadPinnedLink(pin, nil)
		b.must(err)
		info, err := l.Info()
		b.must(errors.Join(err, l.Close()))
		ids = append(ids, info.Program)
	}
	if len(ids) < 10 {
		b.Fatalf("only %d programs are pinned: %v", len(ids), pins)
	}
	return ids
}

// isGone has an error while the program is in the kernel.
func isGone(id ebpf.ProgramID) error {
	p, err := ebpf.NewProgramFromID(id)
	if err == nil {
		return errors.Join(errors.New("it is there"), p.Close())
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
