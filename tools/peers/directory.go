package peers

import (
	"cmp"
	"log/slog"
	"os"

	"github.com/ebb-agent/ebb/tools/owned"
)

const defaultBase = "/var/tmp/ebb-peers"

// BaseDir is where control planes live unless a Config says otherwise:
// $EBB_PEERS_DIR, or /var/tmp/ebb-peers.
func BaseDir() string {
	return cmp.Or(os.Getenv("EBB_PEERS_DIR"), defaultBase)
}

// Clean deletes every control plane below base that is owned by no living
// process, and returns the names of those that are gone.
func Clean(base string, log *slog.Logger) ([]string, error) {
	return owned.Clean(base, log, nothing)
}

// nothing is left of a dead owner but its directory: the kernel kills a control plane's
// processes with it.
func nothing(string) error { return nil }
