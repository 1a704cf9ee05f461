package image

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/distribution/reference"

	"github.com/ebb-agent/ebb/deploy"
)

// Repository is where images of ebb are published, and the default for Options.Name.
const Repository = "ghcr.io/ebb-agent/ebb"

const sourceURL = "https://github.com/ebb-agent/ebb"

// facts are the properties that all programs of an image share.
type facts struct {
	release  string // the chart's appVersion, such as 1.2.0: the tag
	reported string // the version that the programs report, such as 1.2.0+g0123456789ab.dirty
	version  string // the module's, such as v1.2.0 or v0.0.0-20260102030405-0123456789ab+dirty
	revision string // the commit; "" if unknown
	golang   string
	created  time.Time
}

func readFacts(list []program, release, epoch string) (facts, error) {
	of := func(p program) facts {
		return facts{release: release, reported: deploy.Version(release, p.info), version: p.info.Main.Version, revision: p.setting("vcs.revision"), golang: p.info.GoVersion}
	}
	f := of(list[0])
	for _, p := range list[1:] {
		if other := of(p); other != f {
			return f, fmt.Errorf("%w: %s for %s is %s by %s, %s for %s is %s by %s", errStrange,
				list[0].name, list[0].arch, f.version, f.golang, p.name, p.arch, other.version, other.golang)
		}
	}
	f.version = cmp.Or(f.version, "(devel)")
	var err error
	f.created, err = created(epoch, list[0].setting("vcs.time"))
	return f, err
}

// created returns the time of everything in the image: SOURCE_DATE_EPOCH if set, else the
// commit's time, else 1970.
func created(epoch, commit string) (time.Time, error) {
	if epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil || seconds < 0 {
			return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %.40q: want seconds since 1970", epoch)
		}
		return time.Unix(seconds, 0).UTC(), nil
	}
	if commit == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339, commit)
	if err != nil {
		return time.Time{}, fmt.Errorf("time of the commit: %w", err)
	}
	return t.UTC(), nil
}

// readRelease reads the release of a source tree.
func readRelease(tree string) (string, error) {
	text, err := os.ReadFile(filepath.Join(tree, deploy.ChartFile))
	if err != nil {
		return "", err
	}
	return deploy.ReleaseOf(text)
}

// fullName completes an image's name as the kubelet and containerd do. A name without a
// tag gets the release as its tag, which the manifests of the same tree ask for.
func (f facts) fullName(name string) (string, error) {
	name = cmp.Or(name, Repository)
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return "", fmt.Errorf("image name %.200q: %w", name, err)
	}
	switch named.(type) {
	case reference.Digested:
		return "", fmt.Errorf("image name %.200q: a digest cannot be chosen", name)
	case reference.Tagged:
		return named.String(), nil
	}
	tagged, err := reference.WithTag(named, f.release)
	if err != nil {
		return "", fmt.Errorf("image name %.200q with tag %.200q: %w", name, f.release, err)
	}
	return tagged.String(), nil
}

// labels returns the OCI annotations, which are also the labels in the image's config.
func (f facts) labels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":         "ebb",
		"org.opencontainers.image.description":   "eBPF-assisted garbage collection for Kubernetes: the node agent, the controller and the command for people",
		"org.opencontainers.image.version":       f.reported,
		"org.opencontainers.image.licenses":      licenceWithBPF,
		"org.opencontainers.image.source":        sourceURL,
		"org.opencontainers.image.documentation": sourceURL + "/tree/HEAD/docs",
		"org.opencontainers.image.vendor":        "ebb",
		"org.opencontainers.image.created":       f.created.Format(time.RFC3339),
	}
	if f.revision != "" {
		labels["org.opencontainers.image.revision"] = f.revision
	}
	return labels
}

// sourceDateEpoch returns the variable by which a build's time is set.
func sourceDateEpoch() string { return os.Getenv("SOURCE_DATE_EPOCH") }
