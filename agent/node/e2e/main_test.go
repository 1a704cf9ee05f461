package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/bpf"
)

// binary is the agent under test, built once.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Geteuid() != 0 {
		return m.Run() // each test reports why it is skipped
	}
	dir, err := os.MkdirTemp("", "ebb-e2e-")
	if err == nil {
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "ebb-agent")
		err = errors.Join(buildAgent(), removeDeadPins())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare end-to-end tests:", err)
		return 1
	}
	return m.Run()
}

// agentVariable names an agent that was built elsewhere, for machines without
// a compiler (see tools/vm).
const agentVariable = "EBB_TEST_AGENT"

func buildAgent() error {
	if file := os.Getenv(agentVariable); file != "" {
		binary = file
		return nil
	}
	args := append([]string{"build", "-o", binary}, buildFlags...)
	out, err := exec.Command("go", append(args, "github.com/ebb-agent/ebb/cmd/ebb-agent")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the agent: %w\n%s", err, out)
	}
	return nil
}

const pinBase = "/sys/fs/bpf"

var pinDir = regexp.MustCompile(`^ebb-e2e-(\d+)-`)

// removeDeadPins unloads the kernel programs that killed tests have left.
func removeDeadPins() error {
	entries, err := os.ReadDir(pinBase)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		match := pinDir.FindStringSubmatch(e.Name())
		if match == nil {
			continue
		}
		pid, err := strconv.Atoi(match[1])
		if err != nil || unix.Kill(pid, 0) == nil {
			continue // its test lives
		}
		errs = append(errs, bpf.Unload(filepath.Join(pinBase, e.Name())))
	}
	return errors.Join(errs...)
}
