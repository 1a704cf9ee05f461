package cluster

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
)

// Cgroup returns the parent of all cgroups of the machine in that directory.
func Cgroup(dir string) string {
	return fmt.Sprintf("/ebb-cluster-%s-%.4x", filepath.Base(dir), sha256.Sum256([]byte(dir)))
}
