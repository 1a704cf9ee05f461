package image

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

func TestCreated(t *testing.T) {
	for _, c := range []struct{ epoch, commit, want string }{
		{"", "", "1970-01-01T00:00:00Z"},
		{"", "2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05Z"},
		{"86400", "2026-01-02T03:04:05Z", "1970-01-02T00:00:00Z"},
		{"-1", "", "SOURCE_DATE_EPOCH"},
		{"now", "", "SOURCE_DATE_EPOCH"},
		{strings.Repeat("9", 100), "", "SOURCE_DATE_EPOCH"},
		{"", "yesterday", "time of the commit"},
	} {
		got, err := created(c.epoch, c.commit)
		switch {
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("created(%.20q, %q): %v, want %s", c.epoch, c.commit, err, c.want)
		case err == nil && got.Format(time.RFC3339) != c.want:
			t.Errorf("created(%.20q, %q) = %s, want %s", c.epoch, c.commit, got, c.want)
		}
	}
}

func TestFullName(t *testing.T) {
	for _, c := range []struct{ name, release, want, err string }{
		{"", "1.2.3", "ghcr.io/ebb-agent/ebb:1.2.3", ""},
		{"ebb", "v1", "docker.io/library/ebb:v1", ""},
		{"ebb:mine", "v1", "docker.io/library/ebb:mine", ""},
		{"localhost:5000/a/b", "v1", "localhost:5000/a/b:v1", ""},
		{"Ebb", "v1", "", `image name "Ebb"`},
		{"a b", "v1", "", `image name "a b"`},
		{"--", "v1", "", `image name`},
		{"ebb@sha256:" + strings.Repeat("0", 64), "v1", "", "a digest cannot be chosen"},
		{"ebb", strings.Repeat("v", 200), "", "with tag"},
	} {
		got, err := facts{release: c.release, version: "v9", reported: "9"}.fullName(c.name)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("fullName(%q) of %.40q = %q, %v; want %q, %q", c.name, c.release, got, err, c.want, c.err)
		}
	}
}

// TestManifestsAskForThisImage: without a name, the image is the one that the manifests of
// the same tree ask for, also if nothing was committed or tagged.
func TestManifestsAskForThisImage(t *testing.T) {
	const tree = "../.."
	release, err := readRelease(tree)
	if err != nil {
		t.Fatal(err)
	}
	f, err := readFacts([]program{madeOf("v0.0.0-20260102030405-0123456789ab+dirty", "go1.26.8", "a")}, release, "0")
	if err != nil {
		t.Fatal(err)
	}
	made, err := f.fullName("")
	if err != nil {
		t.Fatal(err)
	}
	image := regexp.MustCompile(`(?m)^ *(?:- )?image: (\S+)$`)
	asked := map[string]int{}
	err = filepath.WalkDir(filepath.Join(tree, "deploy/manifests"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range image.FindAllSubmatch(text, -1) {
			asked[string(m[1])]++
		}
		return err
	})
	if err != nil || len(asked) != 1 || asked[made] < 4 {
		t.Errorf("the manifests ask for %v (%v), made is %s", asked, err, made)
	}
}

// made of a version, by a Go, from a commit.
func madeOf(version, golang, revision string) program {
	return program{name: "ebb", arch: "amd64", info: &debug.BuildInfo{
		GoVersion: golang, Main: debug.Module{Version: version},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: revision}},
	}}
}

func TestProgramsMustAgree(t *testing.T) {
	a := madeOf("v1", "go1.26.8", "a")
	if f, err := readFacts([]program{a, a}, "1.2.3", "0"); err != nil || f.version != "v1" || f.reported != "1.2.3+ga" || f.revision != "a" {
		t.Errorf("facts %+v, %v", f, err)
	}
	for _, other := range []program{madeOf("v2", "go1.26.8", "a"), madeOf("v1", "go1.26.9", "a"), madeOf("v1", "go1.26.8", "b")} {
		if _, err := readFacts([]program{a, a, other}, "1.2.3", "0"); err == nil {
			t.Errorf("%+v and %+v are put into one image", a.info, other.info)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{}, {Output: "x", Architectures: []string{"arm64", "386"}}} {
		if _, err := Make(t.Context(), o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	o, err := Options{Output: "x", Architectures: []string{"arm64", "amd64", "arm64"}}.complete()
	if err != nil || len(o.Architectures) != 2 || o.Architectures[0] != "amd64" || o.Tree != "." {
		t.Errorf("%+v, %v", o, err)
	}
}
