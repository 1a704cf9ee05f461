package orphans

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/agent/preview"
)

// Whatever is in an argument arrives as it is, in any shell, and a terminal shows only
// letters.
func TestShell(t *testing.T) {
	var shells []string
	for _, name := range []string{"sh", "dash", "bash", "busybox"} {
		if path, err := exec.LookPath(name); err == nil {
			shells = append(shells, path)
		}
	}
	if len(shells) == 0 {
		t.Fatal("there is no shell")
	}
	check := func(t rapid.TB, args []string) {
		command := Shell(append([]string{"printf", `%s\000`}, args...))
		if command == "" {
			return // see below
		}
		if !shown(command) {
			t.Fatalf("%q is not for a terminal", command)
		}
		for _, shell := range shells {
			run := []string{"-c", command}
			if strings.HasSuffix(shell, "busybox") {
				run = append([]string{"sh"}, run...)
			}
			out, err := exec.Command(shell, run...).Output()
			if want := strings.Join(args, "\x00") + "\x00"; err != nil || string(out) != want {
				t.Fatalf("%s: %s\n%q, %v, want %q", shell, command, out, err, want)
			}
		}
	}
	for _, s := range []string{"", "web", "it's", "a b", "$(touch x)", "`id`", "-n", "%d%s", `\`, `\n`, "!!", "a\x1b[31mb", "\u202e", "ä", "\xff", "~", "#", "a\nb", "\n", "a;b", "=ls", "{a,b}", "*", "\x01\x307"} {
		check(t, []string{s})
	}
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.SliceOf(rapid.Byte().Filter(func(b byte) bool { return b != 0 }))
		check(t, rapid.SliceOfN(rapid.OneOf(rapid.Map(bytes, func(b []byte) string { return string(b) }), rapid.StringMatching(`[ -~]{0,12}`)), 1, 3).Draw(t, "arguments"))
	})
	for s, none := range map[string]bool{"a\n": true, "\x00": true, "a\nb": false, "web": false} {
		if got := Shell([]string{"echo", s}) == ""; got != none {
			t.Errorf("%q: no command: %v", s, got)
		}
	}
}

var at = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func example() Report {
	since := at.Add(-3 * time.Hour)
	held := Object{APIVersion: "example.io/v1", Kind: "Widget", Resource: "widgets.example.io", Namespace: "shop", Name: "w", UID: "u"}
	return Report{Format: 1, Time: at, Objects: 1234, Types: 60, NotSeen: []preview.NotSeen{{Type: "secrets", Why: "you are not allowed to read it"}}, Findings: []Finding{
		{Reason: "held_by_finalizer", Object: held, By: "example.io/hold", Since: &since, Why: "its controller\nis away", Command: "kubectl get w", Looks: true},
		{Reason: "held_by_unserved_finalizer", Object: held, By: "lost.test/x", Since: &since, Why: "nobody known", Command: "kubectl patch w"},
		{Reason: "held_by_unserved_finalizer", Object: Object{Resource: "clusterroles.rbac.authorization.k8s.io", Name: "a\x1b[31m\n"}, By: "lost.test/x", Why: "nobody known", Arguments: []string{"patch"}},
	}}
}

const exampleText = `NAMESPACE   OBJECT                                          REASON                       AGE         BY
shop        widgets.example.io/w                            held_by_finalizer            3h          example.io/hold
  its controller is away
  look: kubectl get w
shop        widgets.example.io/w                            held_by_unserved_finalizer   3h          lost.test/x
  nobody known
  fix: kubectl patch w
-           clusterroles.rbac.authorization.k8s.io/a` + "\uFFFD" + `[31m   held_by_unserved_finalizer   <unknown>   lost.test/x
  nobody known
  a shell cannot take its name; the arguments of kubectl are in -o json

INCOMPLETE. Not seen:
  you are not allowed to read it:
    secrets

Found: 3. Looked at 1234 objects of 60 types at 2026-11-22T12:00:00Z. Nothing was changed.
`

func TestText(t *testing.T) {
	var b strings.Builder
	if err := WriteText(&b, example()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(exampleText, b.String()); diff != "" {
		t.Error(diff)
	}
	b.Reset()
	if err := WriteText(&b, Report{Complete: true, Time: at}); err != nil || !strings.HasPrefix(b.String(), "Nothing was found. Looked at 0 objects") {
		t.Errorf("%v\n%s", err, b.String())
	}
	b.Reset()
	if err := WriteNames(&b, example()); err != nil || b.String() != "widgets.example.io/w\n" { // the other ends with a line feed
		t.Errorf("%v\n%s", err, b.String())
	}
}
