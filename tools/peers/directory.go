package peers

import (
	"cmp"
	"log/slog"
	"os"

	"github.com/ebb-agent/ebb/tools/owned"
)

const defaultBase = "/var/tmp/ebb-peers"

// BaseDir is the default for Config.Base: $EBB_PEERS_DIR, or /var/tmp/ebb-peers.
func BaseDir() string {
	return cmp.Or(os.Getenv("EBB_PEERS_DIR"), defaultBase)
}

// Clean deletes every control plane below base that no living process owns, and returns
// the names of the deleted ones.
func Clean(base string, log *slog.Logger) ([]string, error) {
	return owned.Clean(base, log, nothing)
}

// nothing is the release of a dead owner's directory: nothing is left outside it,
// because the kernel kills a control plane's processes with their owner.
func nothing(string) error { return nil }
