package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ebb-agent/ebb/tools/node"
)

// BinariesEnv names a directory that holds the binaries: the one that
// tools/peers/build prints. "make e2e" sets it.
const BinariesEnv = "EBB_PEERS"

// findBinaries returns the directory of the binaries: the given one, that of
// the environment, or else the one that tools/peers/build makes, which can take
// minutes.
func findBinaries(ctx context.Context, dir string, log io.Writer, names ...string) (string, error) {
	if dir == "" {
		dir = os.Getenv(BinariesEnv)
	}
	if dir == "" {
		var err error
		if dir, err = buildBinaries(ctx, log, names); err != nil {
			return "", err
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	var missing []error
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			missing = append(missing, fmt.Errorf("find binary: %w", err))
		}
	}
	return dir, errors.Join(missing...)
}

func buildBinaries(ctx context.Context, log io.Writer, names []string) (string, error) {
	script, err := node.Script("tools", "peers", "build")
	if err != nil {
		return "", fmt.Errorf("build peers: %w", err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, script, names...)
	cmd.Stderr = io.MultiWriter(log, &stderr)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build peers: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
