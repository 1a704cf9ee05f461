package loopfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ebb-agent/ebb/tools/busy"
)

var errAttached = errors.New("loop device still attached")

// Attached returns the loop devices whose file lies below dir.
func Attached(dir string) ([]string, error) {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	var devices []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // detached since the listing
		}
		if strings.HasPrefix(string(data), dir+"/") {
			devices = append(devices, "/dev/"+strings.Split(file, "/")[3])
		}
	}
	return devices, nil
}

// AwaitDetached waits until no loop device's file lies below dir. A device goes by
// itself with the last user of the filesystem, which may be later than the unmount or
// the end of the mount namespace.
func AwaitDetached(ctx context.Context, dir string) error {
	return busy.Retry(ctx, errAttached, func() error {
		loops, err := Attached(dir)
		if err == nil && len(loops) > 0 {
			err = fmt.Errorf("%w: %s", errAttached, strings.Join(loops, ", "))
		}
		return err
	})
}
