package watermark

import (
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fs"
)

// Names of filesystems, after what is on them.
const (
	Images     = "images"     // unpacked layers
	Content    = "content"    // blobs, as they were pulled
	Containers = "containers" // writable layers
	Kubelet    = "kubelet"
	Logs       = "logs"
)

// Names are all names. A filesystem with several is known by the first of them.
var Names = []string{Images, Content, Containers, Kubelet, Logs}

// directory is a place whose filesystem is watched.
type directory struct {
	name, path string       // no path: not known, or not wanted
	thresholds image.Policy // for a filesystem of its own
	at         fs.Identity  // where it was at the latest survey; zero: not there
	on         *Filesystem
	err        error // why it is not there
}

// newDirectories returns the directories that the configuration names, and entries without a path
// for those that the runtime will name.
func newDirectories(c config.Config) []directory {
	own := func(name string, d config.Directory) directory {
		return directory{name: name, path: d.Path, thresholds: image.Policy{
			HighPercent: d.HighThresholdPercent, InodesHighPercent: d.InodesHighThresholdPercent,
		}}
	}
	p := c.Policy()
	return []directory{
		{name: Images, thresholds: p}, {name: Content, thresholds: p}, {name: Containers, thresholds: p},
		own(Kubelet, c.Filesystems.Kubelet), own(Logs, c.Filesystems.PodLogs),
	}
}
