// Package deploy knows the version of ebb. The source is the appVersion of the Helm chart:
// the manifests ask for an image with that tag, so the programs and the image take their
// version from the same line.
package deploy

import (
	_ "embed"
	"errors"
	"regexp"
	"runtime/debug"
)

// ChartFile is the file with the version, relative to the root of the source tree.
const ChartFile = "deploy/chart/Chart.yaml"

//go:embed chart/Chart.yaml
var chart []byte

var appVersion = regexp.MustCompile(`(?m)^appVersion: *"?([0-9A-Za-z][0-9A-Za-z_.-]{0,127})"? *$`)

// ReleaseOf reads the appVersion, such as 0.1.0, which is also the image's tag.
func ReleaseOf(chart []byte) (string, error) {
	found := appVersion.FindSubmatch(chart)
	if found == nil {
		return "", errors.New(ChartFile + ": no appVersion that a tag could be")
	}
	return string(found[1]), nil
}

// Release returns the release of the source tree that the running program was built from.
func Release() string {
	r, err := ReleaseOf(chart)
	if err != nil {
		panic(err) // the tree was built with it, and its tests read it
	}
	return r
}

// Version returns the version that a program reports: the release, and the commit unless
// the program was built from the release's own commit. "0.1.0+g0123456789ab.dirty" had
// uncommitted changes.
func Version(release string, info *debug.BuildInfo) string {
	if info == nil || info.Main.Version == "v"+release {
		return release
	}
	var revision, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = "+g" + s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ".dirty"
		}
	}
	if revision == "" {
		return release
	}
	return release + revision + dirty
}
