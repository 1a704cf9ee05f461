package program

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// EnterRoot makes dir the root directory of the whole process. It is for a container in which the
// node's root is mounted. "" and "/" change nothing.
func EnterRoot(dir string) error {
	if dir == "" || dir == "/" {
		return nil
	}
	if err := unix.Chroot(dir); err != nil {
		return fmt.Errorf("enter %s (needs CAP_SYS_CHROOT): %w", dir, err)
	}
	return os.Chdir("/")
}
