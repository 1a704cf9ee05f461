package orphans

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ebb-agent/ebb/policy/gc"
)

// revision is one revision of a Helm release, which Helm keeps in a Secret.
type revision struct {
	version int
	status  string
	secret  gc.Coordinates
}

// maxNamed bounds how many Secrets one command deletes.
const maxNamed = 20

// past are the statuses of revisions that nothing depends on. A release that was uninstalled
// and kept, or whose attempts all failed, still has its newest revision.
var past = []string{"superseded", "failed", "uninstalled"}

// Release receives a Secret of the type helm.sh/release.v1 and its labels. It ignores a
// Secret unless both its name and its labels are Helm's.
func (l *Inspection) Release(o gc.Object, labels map[string]string) {
	name, version := labels["name"], labels["version"]
	n, err := strconv.Atoi(version)
	if o.Terminating || labels["owner"] != "helm" || name == "" || err != nil || n < 0 || o.Name != "sh.helm.release.v1."+name+".v"+version {
		return
	}
	k := [2]string{strings.Clone(o.Namespace), strings.Clone(name)}
	status := "" // nothing is known of other words
	if i := slices.Index(past, labels["status"]); i >= 0 {
		status = past[i]
	}
	l.releases[k] = append(l.releases[k], revision{n, status, gc.Coordinates{APIVersion: o.APIVersion, Kind: o.Kind, Resource: "secrets",
		Namespace: k[0], Name: strings.Clone(o.Name), UID: strings.Clone(o.UID)}})
}

// ForgetReleases discards all releases, because their list starts over or failed.
func (l *Inspection) ForgetReleases() { clear(l.releases) }

// histories reports releases with more revisions than Config.History, and names the oldest
// revisions with a status of the past.
func (l *Inspection) histories() (list []Finding) {
	for k, all := range l.releases {
		many := len(all) - l.config.History
		if many <= 0 || !l.wanted(all[0].secret) {
			continue
		}
		slices.SortFunc(all, func(a, b revision) int { return a.version - b.version })
		var old []revision
		for _, r := range all[:len(all)-1] { // the newest stays, whatever its status
			if r.status != "" && len(old) < many {
				old = append(old, r)
			}
		}
		f := Finding{Reason: ReleaseHistory, Object: all[0].secret, By: k[1],
			Why: fmt.Sprintf("the Helm release %s has %d revisions, %d more than %d; helm upgrade --history-max=%d keeps it so", k[1], len(all), many, l.config.History, l.config.History)}
		switch {
		case len(old) == 0:
			f.Why += "; none of the old ones has a status of the past, so none is named here"
		default:
			f.Object = old[0].secret
			f.Command = []string{"delete"}
			for _, r := range old[:min(len(old), maxNamed)] {
				f.Command = append(f.Command, Target(r.secret))
			}
			f.Command = append(f.Command, "--namespace="+k[0])
			if len(old) > maxNamed {
				f.Why += fmt.Sprintf("; the command deletes the first %d", maxNamed)
			}
		}
		list = append(list, f)
	}
	return list
}
