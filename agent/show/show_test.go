package show_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
	"github.com/ebb-agent/ebb/agent/show/showtest"
	"github.com/ebb-agent/ebb/tools/golden"
)

var errSilent = errors.New("no answer within 10s " + showtest.Evil)

// node has a page on a node; a third node never answers.
func nodes[P any](pages ...P) (list []show.Node[P]) {
	for i, p := range pages {
		list = append(list, show.Node[P]{Name: fmt.Sprintf("worker-%d", i+1), Page: p})
	}
	return list
}

func silent[P any](list []show.Node[P]) []show.Node[P] {
	return append(list, show.Node[P]{Name: "worker-9" + showtest.Evil, Err: errSilent})
}

func duOf(pods bool) show.Usage {
	u := show.Usage{Usage: showtest.Usage()}
	if !pods {
		u.PodsUnknown = "needs get on nodes/proxy"
		return u
	}
	var s show.Summary
	if err := json.Unmarshal([]byte(showtest.Summary), &s); err != nil {
		panic(err)
	}
	u.Pods = s.Usage()
	return u
}

func statusReport() show.StatusReport {
	return show.StatusReport{Time: showtest.Now, Nodes: silent(nodes(showtest.Status(), showtest.Troubled())),
		Controller: &show.Controller{Pods: 2, Ready: 1, Version: "0.1.0" + showtest.Evil, Leader: "ebb-controller-7d" + showtest.Evil, Halted: "breaker-open" + showtest.Evil, Mode: "observe" + showtest.Evil, Renewed: showtest.Now.Add(-4 * time.Second), Unknown: []string{"you may not list pods"}},
		Others: &show.Others{Kubelets: map[string]int{"from 85%": 2, "never": 1}, KubeletsUnknown: map[string]int{"no answer " + showtest.Evil: 1},
			Managers: []string{"kube-system/kcm-a" + showtest.Evil}, ManagersOff: []string{"kube-system/kcm-b (--controllers=*,-garbage-collector-controller)"}, ManagersAtRisk: []string{"kube-system/kcm-b"}}}
}

func whyReport(n int) show.WhyReport {
	var pages []page.Why
	for range n {
		pages = append(pages, showtest.Why(showtest.Old()))
	}
	r := show.WhyReport{Name: "postgres" + showtest.Evil, Nodes: nodes(pages...)}
	if n > 1 {
		r.Nodes[1].Page = showtest.Why(showtest.Strange())
		r.Nodes[1].Page.Place, r.Nodes[1].Page.History = 0, nil
		r.Nodes, r.Not = silent(r.Nodes), []string{"worker-12", showtest.Evil}
		r.Many = map[string]string{"worker-13": `"postgres" is the name of 2 images; ask for one of them: ` + showtest.Evil}
	}
	return r
}

func events() []page.ReclaimEvent {
	return []page.ReclaimEvent{
		{Event: "begun", Of: 3},
		{Event: "removed", ID: showtest.Old().ID, References: showtest.Old().References, FreedBytes: 1600000000, Removed: 1, Of: 3},
		{Event: "kept", ID: "sha256:1", References: []string{showtest.Evil}, Reason: "in_use" + showtest.Evil, Removed: 1, Of: 3},
		{Event: "failed", ID: "sha256:1234567890123456", Reason: showtest.Evil, Removed: 1, Of: 3},
		{Event: "ended", Removed: 1, Of: 3, FreedBytes: 1600000001, Result: "incomplete", Reason: "containerd went away"},
	}
}

func reclaim(w io.Writer, v show.View) error {
	runs := []show.Run{{Node: "worker-1"}, {Node: "worker-2", Removed: 2, Of: 5, Freed: 4096, Result: "unknown", Err: show.ErrCut}, {Node: "worker-3", Result: "not begun"}, {Node: "w" + showtest.Evil, Result: "new" + showtest.Evil}}
	for _, e := range events() {
		runs[0].Note(e)
		for _, several := range []bool{false, true} {
			if line := runs[0].Progress(e, several); line != "" {
				fmt.Fprintln(w, line)
			}
		}
	}
	return show.Ended(w, v, runs)
}

// shown are all texts.
var shown = map[string]func(io.Writer, show.View) error{
	"status": func(w io.Writer, v show.View) error { return show.Status(w, v, statusReport()) },
	"status-agents": func(w io.Writer, v show.View) error {
		return show.Status(w, v, show.StatusReport{Time: showtest.Now, Nodes: nodes(showtest.Status()), Controller: &show.Controller{}})
	},
	"status-forbidden": func(w io.Writer, v show.View) error {
		return show.Status(w, v, show.StatusReport{Time: showtest.Now, Nodes: nodes(showtest.Status()), Controller: &show.Controller{Unknown: []string{"you may not list pods"}}})
	},
	"nodes": func(w io.Writer, v show.View) error {
		list := silent(nodes(showtest.Status(), showtest.Troubled(), page.Status{Time: showtest.Now}))
		show.ByPressure(list)
		return show.Nodes(w, v, list)
	},
	"images": func(w io.Writer, v show.View) error {
		return show.Images(w, v, nodes(showtest.Images()), show.ImageOptions{})
	},
	"images-many": func(w io.Writer, v show.View) error {
		return show.Images(w, v, silent(nodes(showtest.Images(), showtest.Images())), show.ImageOptions{Sort: "used"})
	},
	"why":      func(w io.Writer, v show.View) error { return show.Why(w, v, whyReport(1)) },
	"why-many": func(w io.Writer, v show.View) error { return show.Why(w, v, whyReport(7)) },
	"plan":     func(w io.Writer, v show.View) error { return show.Plans(w, v, nodes(showtest.Plan()), false) },
	"plan-short": func(w io.Writer, v show.View) error {
		return show.Plans(w, v, silent(nodes(showtest.Short(), page.Plan{Time: showtest.Now, Looked: showtest.Now})), true)
	},
	"reclaim": reclaim,
	"pause": func(w io.Writer, v show.View) error {
		return show.Pauses(w, v, silent(nodes(showtest.Pause(), page.Pause{Since: showtest.Now, Until: showtest.Now.Add(time.Hour), NotSaved: "disk full"})))
	},
	"resume": func(w io.Writer, v show.View) error {
		return show.Resumes(w, v, nodes(page.Resume{WasPaused: true}, page.Resume{}))
	},
	"du":        func(w io.Writer, v show.View) error { return show.Du(w, v, nodes(duOf(true))) },
	"du-agents": func(w io.Writer, v show.View) error { return show.Du(w, v, silent(nodes(duOf(false)))) },
	"history": func(w io.Writer, v show.View) error {
		return show.History(w, v, silent(nodes(showtest.History(), page.History{})))
	},
	"top": func(w io.Writer, v show.View) error {
		return show.Top(w, v, 24, show.Screen{Node: "worker-1", Status: showtest.Status(), Images: showtest.Images(),
			Now: showtest.Writers(showtest.Now, 30<<20), Before: showtest.Writers(showtest.Now.Add(-2*time.Second), 10<<20)})
	},
	"top-troubled": func(w io.Writer, v show.View) error {
		return show.Top(w, v, 12, show.Screen{Node: "worker-2", Status: showtest.Troubled(), Images: showtest.Images(), Now: showtest.Writers(showtest.Now, 1), Err: errSilent})
	},
}

// TestGolden: what people see, also in a narrow terminal, where tables fit and nothing of the
// other side is more than letters.
func TestGolden(t *testing.T) {
	for name, write := range shown {
		for suffix, width := range map[string]int{"": 0, "-40": 40, "-80": 80} {
			t.Run(name+suffix, func(t *testing.T) {
				var b bytes.Buffer
				if err := write(&b, show.View{Width: width}); err != nil {
					t.Fatal(err)
				}
				golden.Check(t, filepath.Join("testdata", name+suffix+".txt"), b.String())
				printable(t, b.String())
				if width > 0 && name != "reclaim" { // its progress is written as it comes, whatever the width
					narrow(t, b.String(), width)
				}
			})
		}
	}
}

func printable(t rapid.TB, s string) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Error("invalid UTF-8")
	}
	for _, r := range s {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%q comes out", r)
		}
	}
}

// narrow: a line is longer than the width only for a word that is.
func narrow(t testing.TB, s string, width int) {
	t.Helper()
	for line := range strings.Lines(s) {
		longest := 0
		for word := range strings.FieldsSeq(line) {
			longest = max(longest, utf8.RuneCountInString(word))
		}
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width && longest < width-15 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestColour: only what needs attention has any, and each line by itself.
func TestColour(t *testing.T) {
	var plain, coloured bytes.Buffer
	list := nodes(showtest.Status(), showtest.Troubled())
	if err := errors.Join(show.Nodes(&plain, show.View{Width: 80}, list), show.Nodes(&coloured, show.View{Width: 80, Color: true}, list)); err != nil {
		t.Fatal(err)
	}
	if strings.Count(coloured.String(), "\x1b[31m") != 1 || strings.Count(coloured.String(), "\x1b[0m\n") != 1 {
		t.Errorf("%q", coloured.String())
	}
	if got := strings.NewReplacer("\x1b[31m", "", "\x1b[0m", "").Replace(coloured.String()); got != plain.String() {
		t.Errorf("%q", got)
	}
}

// TestAnyWidth: whatever names there are and however narrow it is, nothing is left that a
// terminal obeys, and nothing fails.
func TestAnyWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Just(showtest.Evil), rapid.Just(strings.Repeat("x", 5000)))
		status, images := showtest.Troubled(), showtest.Images()
		status.NotReady, status.Degraded = text.Draw(t, "not ready"), []string{text.Draw(t, "degraded")}
		status.Filesystems[0].Names, status.Filesystems[0].Path = nil, text.Draw(t, "path")
		images.Images[2].References, images.Images[2].UsedBy = []string{text.Draw(t, "reference")}, []string{text.Draw(t, "user")}
		v := show.View{Width: rapid.IntRange(0, 60).Draw(t, "width")}
		var b bytes.Buffer
		err := errors.Join(
			show.Status(&b, v, show.StatusReport{Nodes: nodes(status)}),
			show.Nodes(&b, v, nodes(status)),
			show.Images(&b, v, nodes(images), show.ImageOptions{Sort: "name", Unused: true}),
			show.Top(&b, v, rapid.IntRange(0, 30).Draw(t, "height"), show.Screen{Status: status, Images: images}),
		)
		if err != nil {
			t.Fatal(err)
		}
		printable(t, b.String())
	})
}

// TestSorts: each order, and what is left of those that something protects.
func TestSorts(t *testing.T) {
	for order, want := range map[string]string{
		"":      "postgres busybox checkout evil",
		"used":  "postgres evil busybox checkout",
		"size":  "checkout postgres busybox evil",
		"own":   "checkout postgres busybox evil",
		"freed": "postgres busybox checkout evil",
		"name":  "busybox postgres evil checkout",
	} {
		var got []string
		for _, n := range show.ImageNames(nodes(showtest.Images()), show.ImageOptions{Sort: order}) {
			for _, short := range []string{"postgres", "busybox", "checkout", "evil"} {
				if strings.Contains(n, short) {
					got = append(got, short)
					break
				}
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("by %q: %q, want %q", order, got, want)
		}
	}
	if got := show.ImageNames(nodes(showtest.Images()), show.ImageOptions{Unused: true}); len(got) != 2 {
		t.Errorf("unused: %q", got)
	}
}

// TestDocuments: JSON has all that there is, letter by letter, and neither it nor YAML has
// anything that a terminal obeys.
func TestDocuments(t *testing.T) {
	list := silent(nodes(showtest.Images()))
	d, err := show.NewDocument(list)
	if err != nil {
		t.Fatal(err)
	}
	var asJSON, asYAML bytes.Buffer
	if err := errors.Join(show.WriteJSON(&asJSON, d), show.WriteYAML(&asYAML, d)); err != nil {
		t.Fatal(err)
	}
	printable(t, asJSON.String())
	printable(t, asYAML.String())
	type document struct {
		Format int `json:"format"`
		Nodes  []struct {
			Node  string `json:"node"`
			Error string `json:"error"`
			page.Images
		} `json:"nodes"`
	}
	var got, fromYAML document
	if err := json.Unmarshal(asJSON.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	valid := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	if got.Format != 1 || got.Nodes[0].Node != "worker-1" || got.Nodes[1].Error != valid(errSilent.Error()) || got.Nodes[0].Images.Images[3].References[0] != valid(showtest.Evil) {
		t.Errorf("%+v", got)
	}
	if err := yaml.Unmarshal(asYAML.Bytes(), &fromYAML); err != nil || fromYAML.Nodes[0].Totals.Images != list[0].Page.Totals.Images {
		t.Errorf("%v: %+v", err, fromYAML)
	}
	var names bytes.Buffer
	if err := show.WriteNames(&names, []string{showtest.Evil, "a", "a", ""}); err != nil || strings.Count(names.String(), "\n") != 2 {
		t.Errorf("%v: %q", err, names.String())
	}
	printable(t, names.String())
	status, err := statusReport().Document()
	if err != nil {
		t.Fatal(err)
	}
	asJSON.Reset()
	if err := show.WriteJSON(&asJSON, status); err != nil || !strings.Contains(asJSON.String(), `"controller": {`) {
		t.Errorf("%v: %s", err, &asJSON)
	}
}

// poison makes every text of nodes hostile, also the names and errors of the nodes.
func poison[P any](list []show.Node[P]) []show.Node[P] {
	list = showtest.Poison(list)
	for i := range list {
		if list[i].Err != nil {
			list[i].Err = errors.New(showtest.Worst)
		}
	}
	return list
}

// TestWorstNames: no text shows anything that a terminal obeys, in any field that a node, the API
// server or a person fills, however long it is.
func TestWorstNames(t *testing.T) {
	status := showtest.Poison(statusReport())
	status.Nodes = poison(status.Nodes)
	why := showtest.Poison(whyReport(7))
	why.Nodes = poison(why.Nodes)
	screen := showtest.Poison(show.Screen{Status: showtest.Troubled(), Images: showtest.Images(), Now: showtest.Writers(showtest.Now, 1)})
	screen.Err = errors.New(showtest.Worst)
	quiet := screen
	quiet.Err = nil
	run := show.Run{Node: showtest.Worst, Result: showtest.Worst, Err: errors.New(showtest.Worst)}
	pages := map[string]func(io.Writer, show.View) error{
		"status": func(w io.Writer, v show.View) error { return show.Status(w, v, status) },
		"nodes":  func(w io.Writer, v show.View) error { return show.Nodes(w, v, status.Nodes) },
		"images": func(w io.Writer, v show.View) error {
			return show.Images(w, v, poison(silent(nodes(showtest.Images(), showtest.Images()))), show.ImageOptions{})
		},
		"why": func(w io.Writer, v show.View) error { return show.Why(w, v, why) },
		"plan": func(w io.Writer, v show.View) error {
			return show.Plans(w, v, poison(silent(nodes(showtest.Plan(), showtest.Short()))), true)
		},
		"pause": func(w io.Writer, v show.View) error {
			return show.Pauses(w, v, poison(silent(nodes(showtest.Pause(), page.Pause{NotSaved: "x"}))))
		},
		"resume": func(w io.Writer, v show.View) error {
			return show.Resumes(w, v, poison(silent(nodes(page.Resume{NotSaved: "x"}))))
		},
		"du": func(w io.Writer, v show.View) error {
			return show.Du(w, v, poison(silent(nodes(duOf(true), duOf(false)))))
		},
		"history": func(w io.Writer, v show.View) error {
			return show.History(w, v, poison(silent(nodes(showtest.History()))))
		},
		"top": func(w io.Writer, v show.View) error {
			return errors.Join(show.Top(w, v, 24, screen), show.Top(w, v, 24, quiet))
		},
		"reclaim": func(w io.Writer, v show.View) error {
			for _, e := range showtest.Poison(events()) {
				for kind := range map[string]bool{"removed": true, "kept": true, "failed": true, "ended": true, showtest.Worst: true} {
					e.Event = kind
					fmt.Fprintln(w, run.Progress(e, true))
				}
			}
			return show.Ended(w, v, []show.Run{run, run})
		},
	}
	for name, write := range pages {
		for _, width := range []int{0, 40} {
			var b bytes.Buffer
			if err := write(&b, show.View{Width: width}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if b.Len() == 0 {
				t.Errorf("%s shows nothing", name)
			}
			printable(t, b.String())
		}
	}
}

// A pause by the pause file has no end.
func TestPausedByFile(t *testing.T) {
	p := page.Pause{By: "the file /etc/ebb-pause/pause", Reason: "a bad release"}
	if got, want := show.Paused(time.Now(), p), "until further notice, by the file /etc/ebb-pause/pause: a bad release"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
