package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"testing"
)

func TestReleaseOf(t *testing.T) {
	for text, want := range map[string]string{
		"version: 1.0.0\nappVersion: 0.1.0\n": "0.1.0", "appVersion: \"0.2.0-rc.1\"\n": "0.2.0-rc.1", "appVersion: 0.1.0": "0.1.0",
		"": "", "version: 1.0.0\n": "", "appVersion:\n": "", "appVersion: a b\n": "", " appVersion: 0.1.0\n": "", "appVersion: 0.1.0+dirty\n": "",
	} {
		if got, err := ReleaseOf([]byte(text)); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestVersion(t *testing.T) {
	built := func(module, revision, modified string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: module}, Settings: []debug.BuildSetting{
			{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: modified},
		}}
	}
	const commit, pseudo = "0123456789abcdef0123456789abcdef01234567", "v0.0.0-20260102030405-0123456789ab"
	for _, c := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{nil, "0.1.0"},
		{&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "0.1.0"},
		{built("v0.1.0", commit, "false"), "0.1.0"},
		{built("v0.1.0+dirty", commit, "true"), "0.1.0+g0123456789ab.dirty"},
		{built(pseudo, commit, "false"), "0.1.0+g0123456789ab"},
		{built(pseudo+"+dirty", commit, "true"), "0.1.0+g0123456789ab.dirty"},
		{built("v0.2.0", "short", "false"), "0.1.0+gshort"},
	} {
		if got := Version("0.1.0", c.info); got != c.want {
			t.Errorf("%+v: %s, want %s", c.info, got, c.want)
		}
	}
}

// TestManifestsAreOfThisVersion: "make manifests" was not forgotten.
func TestManifestsAreOfThisVersion(t *testing.T) {
	version := regexp.MustCompile(`(?:app\.kubernetes\.io/version: "|image: ghcr\.io/ebb-agent/ebb:)([^"\s]*)`)
	for _, pattern := range []string{"manifests/*.yaml", "manifests/*/*.yaml", "doctor/job.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found := version.FindAllSubmatch(text, -1)
			if len(found) == 0 && filepath.Base(file) != "00-namespace.yaml" {
				t.Errorf("%s names no version", file)
			}
			for _, m := range found {
				if string(m[1]) != Release() {
					t.Errorf("%s: %s, but this is %s", file, m[0], Release())
				}
			}
		}
	}
}

// TestTagsAreOfThisVersion: commands to copy, in pages and help texts, name the image of this release.
func TestTagsAreOfThisVersion(t *testing.T) {
	tag := regexp.MustCompile(`/ebb:v?([0-9]+\.[0-9]+\.[0-9]+)`)
	named := 0
	for _, pattern := range []string{"../README.md", "../docs/*.md", "../cmd/ebb/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range tag.FindAllSubmatch(text, -1) {
				if named++; string(m[1]) != Release() {
					t.Errorf("%s: %s, but this is %s", file, m[0], Release())
				}
			}
		}
	}
	if named < 5 {
		t.Errorf("only %d tags were found", named)
	}
}
