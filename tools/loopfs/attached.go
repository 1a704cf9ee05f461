package loopfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/ebb-agent/ebb/tools/busy"
)

var errAttached = errors.New("loop device still attached")

// Attached returns the loop devices whose backing file is below dir.
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

// AwaitDetached waits until no loop device has a backing file below dir. The kernel
// detaches a device with the last user of the filesystem, which may be after the
// unmount or the end of the mount namespace.
func AwaitDetached(ctx context.Context, dir string) error {
	var loops []string
	err := busy.Retry(ctx, errAttached, func() (err error) {
		if loops, err = Attached(dir); err == nil && len(loops) > 0 {
			err = fmt.Errorf("%w: %s", errAttached, strings.Join(loops, ", "))
		}
		return err
	})
	if errors.Is(err, errAttached) {
		err = fmt.Errorf("%w: %s", err, holders(loops))
	}
	return err
}

// holders lists the processes that have one of these devices mounted or open.
func holders(devices []string) string {
	var list []string
	processes, _ := procfs.AllProcs()
	for _, p := range processes {
		var has []string
		mounts, _ := p.MountInfo() // unreadable: it has just ended
		files, _ := p.FileDescriptorTargets()
		for _, device := range devices {
			if slices.ContainsFunc(mounts, func(m *procfs.MountInfo) bool { return m.Source == device }) {
				has = append(has, "has "+device+" mounted")
			}
			if slices.Contains(files, device) {
				has = append(has, "has "+device+" open")
			}
		}
		if len(has) > 0 {
			name, _ := p.Comm()
			list = append(list, fmt.Sprintf("process %d (%s) %s", p.PID, name, strings.Join(has, ", ")))
		}
	}
	if list == nil {
		return "no process has it mounted or open"
	}
	return strings.Join(list, "; ")
}
