package main

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const aPage = "# Page\n\n```console\n# not this\n```\n\n## Do it\n\nText.\n\n```console\n" +
	"$ make push REGISTRY=r/team      # where to\n# helm upgrade \\\n    --set a=b \\\n    --set c=d\nme@host:~$ sudo -i true\n```\n\n" +
	"```yaml\n# web.yml\nusers: {a: $2y$10$…}\n```\n\n```yaml\nno: name\n```\n\n### Below\n\n```console\n$ echo '#1'\n```\n\n## Next\n\n```console\n$ nor this\n```\n"

func TestCommandsOfAPage(t *testing.T) {
	t.Parallel()
	got, err := commandsOf(aPage, "Do it")
	want := []string{"make push REGISTRY=r/team", "helm upgrade \\\n    --set a=b \\\n    --set c=d", "sudo -i true", "echo '#1'"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v; (-want +got):\n%s", err, diff)
	}
	if got, err = commandsOf(aPage, "Below"); err != nil || len(got) != 1 {
		t.Errorf("a section within: %q, %v", got, err)
	}
	files, err := filesOf(aPage, "Do it")
	if diff := cmp.Diff(map[string]string{"web.yml": "# web.yml\nusers: {a: $2y$10$…}\n"}, files); err != nil || diff != "" {
		t.Errorf("%v; (-want +got):\n%s", err, diff)
	}
	for _, bad := range []string{"# Do it\n", "# Do it\n```console\noutput\n```\n", "# Do it\n```console\n$ a \\\n```\n", "```console\n# Do it\n```\n"} {
		if got, err := commandsOf(bad, "Do it"); err == nil {
			t.Errorf("%q gives %q", bad, got)
		}
	}
}

func TestSubstitute(t *testing.T) {
	t.Parallel()
	if got, want := substitute("ebb why IMAGE --node NODE EBB_LEAVE_IMAGE_GC=true"), "ebb why node.test/app:1 --node ebb EBB_LEAVE_IMAGE_GC=true"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := substitute("{prometheus: $2y$10$…}"), "{prometheus: "+passwordHash+"}"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The pages can be followed: their sections are there, with commands, and the one that is
// to be quick is.
func TestPagesCanBeFollowed(t *testing.T) {
	t.Parallel()
	read := func(page string) string {
		text, err := os.ReadFile("../../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, s := range followed {
		if _, err := commandsOf(read(s.page), s.heading); err != nil {
			t.Errorf("%s, %q: %v", s.page, s.heading, err)
		}
	}
	commands := 0
	for _, heading := range []string{"2. Install", "6. The controller", "3. Prometheus and Grafana"} {
		list, err := commandsOf(read(installPage), heading)
		if err != nil {
			t.Error(err)
		}
		commands += len(list)
	}
	if commands > mostCommands {
		t.Errorf("%d commands from a pushed image to a dashboard", commands)
	}
	if names := counterparts(read(collectorsPage)); len(names) != 3 {
		t.Errorf("%s says how to switch off %q", collectorsPage, names)
	}
	files, err := filesOf(read("docs/monitoring.md"), "TLS and passwords")
	if names := slices.Sorted(maps.Keys(files)); err != nil || strings.Join(names, " ") != "metrics.yaml web.yml" {
		t.Errorf("files: %q, %v", names, err)
	}
	for name, text := range files {
		if text = substitute(text); strings.Contains(text, "…") {
			t.Errorf("%s is not complete: %s", name, text)
		}
	}
}
