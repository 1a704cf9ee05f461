package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ebb-agent/ebb/tools/process"
)

// BinariesEnv is the variable that names the directory of the binaries, which
// tools/peers/build prints. "make e2e" sets it.
const BinariesEnv = "EBB_PEERS"

// findBinaries returns the directory of the binaries: dir if given, else that of the
// environment, else the one that tools/peers/build makes, which can take minutes.
func findBinaries(ctx context.Context, dir string, log io.Writer, names ...string) (string, error) {
	dir = cmp.Or(dir, os.Getenv(BinariesEnv))
	if dir == "" {
		var err error
		if dir, err = process.Build(ctx, log, "tools/peers/build", names...); err != nil {
			return "", fmt.Errorf("build peers: %w", err)
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
