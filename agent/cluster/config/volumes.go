package config

import (
	"fmt"
	"path/filepath"
	"regexp"
	"time"

	"github.com/ebb-agent/ebb/policy/volumes"
)

// Volumes configures which volumes, VolumeAttachments and CSINodes are deleted; see [volumes.Config].
type Volumes struct {
	Mode        Mode     `json:"mode"`
	ReleasedFor Duration `json:"releasedFor"`
	Drivers     []Driver `json:"drivers"`
	Attachments bool     `json:"attachments"`
	CSINodes    bool     `json:"csiNodes"`
	Quarantine  Duration `json:"quarantine"`
}

// Driver is a CSI driver that deletes volumes, and the socket at which it listens.
type Driver struct {
	Name   string `json:"name"`
	Socket string `json:"socket"`
}

func defaultVolumes() Volumes {
	return Volumes{Mode: Observe, ReleasedFor: Duration(minReleased), Drivers: []Driver{}, Quarantine: Duration(time.Hour)}
}

// minReleased is how long a volume must at least have been released. After the restore of a
// cluster, that is the time to restore the claims.
const minReleased = 24 * time.Hour

// VolumePolicy returns the configuration of the rules for volumes. As many Nodes may be lost at
// once as for Pods.
func (c Config) VolumePolicy() volumes.Config {
	p := c.Collectors.Volumes.Policy()
	p.MaxShare = c.Collectors.Pods.MaxShare
	return p
}

// Policy returns the configuration of the rules, without the share of lost Nodes.
func (v Volumes) Policy() volumes.Config {
	c := volumes.Config{ReleasedFor: time.Duration(v.ReleasedFor), Attachments: v.Attachments, CSINodes: v.CSINodes, Quarantine: time.Duration(v.Quarantine)}
	for _, d := range v.Drivers {
		c.Serve = append(c.Serve, d.Name)
	}
	return c
}

// Socket returns the socket of a driver; "" if the driver is not configured.
func (v Volumes) Socket(driver string) string {
	for _, d := range v.Drivers {
		if d.Name == driver {
			return d.Socket
		}
	}
	return ""
}

// driverName matches the name of a CSI driver, as CSI (GetPluginInfo) and Kubernetes (lower case)
// require.
var driverName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

func (v *Volumes) problems(fail func(field, format string, args ...any)) {
	const at = "collectors.volumes"
	if d := time.Duration(v.ReleasedFor); d < minReleased || d > maxDuration {
		fail(at+".releasedFor", "%s is not between %s and %s", v.ReleasedFor, Duration(minReleased), Duration(maxDuration))
	}
	if d := time.Duration(v.Quarantine); d < time.Second || d > maxDuration {
		fail(at+".quarantine", "%s is not between %s and %s", v.Quarantine, Duration(time.Second), Duration(maxDuration))
	}
	names := map[string]bool{}
	for n, d := range v.Drivers {
		at := fmt.Sprintf("%s.drivers[%d]", at, n)
		switch {
		case !driverName.MatchString(d.Name):
			fail(at+".name", "%q is not a CSI driver's name", d.Name)
		case names[d.Name]:
			fail(at+".name", "%q is there twice", d.Name)
		}
		names[d.Name] = true
		if p := d.Socket; !filepath.IsAbs(p) || filepath.Clean(p) != p || len(p) > maxSocketPath {
			fail(at+".socket", "%q is not a clean absolute path of at most %d bytes", p, maxSocketPath)
		}
	}
}
