package beside

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ebb-agent/ebb/tools/peers"
)

// binary is the agent under test, built once.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Geteuid() != 0 || os.Getenv(peers.BinariesEnv) == "" {
		return m.Run() // each test reports why it is skipped
	}
	dir, err := os.MkdirTemp("", "ebb-beside-")
	if err == nil {
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "ebb-agent")
		var out []byte
		out, err = exec.Command("go", "build", "-race", "-o", binary, "github.com/ebb-agent/ebb/cmd/ebb-agent").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("build the agent: %w: %s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare tests:", err)
		return 1
	}
	return m.Run()
}
