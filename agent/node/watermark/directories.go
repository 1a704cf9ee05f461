package watermark

import (
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fs"
)

// What a filesystem is called, after what stands on it.
const (
	Images     = "images"     // unpacked layers
	Content    = "content"    // blobs, as they were pulled
	Containers = "containers" // writable layers
	Kubelet    = "kubelet"
	Logs       = "logs"
)

// Names are all names. The first of those that a filesystem has speaks for it.
var Names = []string{Images, Content, Containers, Kubelet, Logs}

// directory is a place whose filesystem is watched.
type directory struct {
	name, path string       // no path: not known, or not wanted
	thresholds image.Policy // for a filesystem of its own
	at         fs.Identity  // where it was at the latest survey; zero: not there
	on         *Filesystem
	err        error // why it is not there
}

// newDirectories returns those that the configuration names, and room for those that the
// runtime will.
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
