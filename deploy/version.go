// Package deploy says which version of ebb this is. Its Helm chart does: the manifests ask
// for an image of the chart's appVersion, so the programs and the image take theirs from
// the same line.
package deploy

import (
	_ "embed"
	"errors"
	"regexp"
	"runtime/debug"
)

// ChartFile is where the version stands, in the source tree.
const ChartFile = "deploy/chart/Chart.yaml"

//go:embed chart/Chart.yaml
var chart []byte

var appVersion = regexp.MustCompile(`(?m)^appVersion: *"?([0-9A-Za-z][0-9A-Za-z_.-]{0,127})"? *$`)

// ReleaseOf reads the appVersion, such as 0.1.0, which is the image's tag, too.
func ReleaseOf(chart []byte) (string, error) {
	found := appVersion.FindSubmatch(chart)
	if found == nil {
		return "", errors.New(ChartFile + ": no appVersion that a tag could be")
	}
	return string(found[1]), nil
}

// Release is that of the tree that the running program was built from.
func Release() string {
	r, err := ReleaseOf(chart)
	if err != nil {
		panic(err) // the tree was built with it, and its tests read it
	}
	return r
}

// Version is what a program says of itself: the release, and which commit it was built
// from unless that is the release's own. "0.1.0+g0123456789ab.dirty" had changes that were
// not committed.
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
