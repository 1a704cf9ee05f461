package doctor

import (
	"strings"

	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// Level is the result of a check.
type Level string

// The levels, from good to bad.
const (
	OK      Level = "ok"
	Note    Level = "note"    // good to know; nothing needs to be done
	Warning Level = "warning" // works, but with restrictions
	Error   Level = "error"   // does harm, or does not work
)

func levelIf(so bool, then, otherwise Level) Level {
	if so {
		return then
	}
	return otherwise
}

// Check is one thing that was checked.
type Check struct {
	Section string   `json:"section"`
	ID      string   `json:"id"` // stable: for scripts
	Level   Level    `json:"level"`
	Found   string   `json:"found"`
	Why     string   `json:"why,omitempty"`
	Fix     []string `json:"fix,omitempty"` // fixes: each is an alternative or one step, as it says
}

// Summary counts the checks by level.
type Summary struct {
	OK       int `json:"ok"`
	Notes    int `json:"notes"`
	Warnings int `json:"warnings"`
	Errors   int `json:"errors"`
}

// KubeletReport has the kubelet's settings.
type KubeletReport struct {
	PID      int               `json:"pid,omitempty"`
	Complete bool              `json:"complete"` // false: not all could be read
	Settings []kubelet.Setting `json:"settings"`
}

// Report is the result of all checks.
type Report struct {
	Format  int            `json:"format"` // 1
	Node    string         `json:"node"`
	Kernel  string         `json:"kernel"`
	Config  string         `json:"config"` // "": the defaults
	Kubelet *KubeletReport `json:"kubelet,omitempty"`
	Checks  []Check        `json:"checks"`
	Summary Summary        `json:"summary"`
}

// findings collects checks, of one section after the other.
type findings struct {
	section string
	checks  []Check
}

func (f *findings) add(level Level, id, found, why string, fix ...string) {
	c := Check{Section: f.section, ID: id, Level: level, Found: line(found), Why: line(why)}
	for _, way := range fix {
		c.Fix = append(c.Fix, line(way))
	}
	f.checks = append(f.checks, c)
}

func (f *findings) ok(id, found string) { f.add(OK, id, found, "") }

// check adds the finding good if the check passed, else the other one.
func (f *findings) check(passed bool, id, good string, level Level, found, why string, fix ...string) {
	if passed {
		f.ok(id, good)
	} else {
		f.add(level, id, found, why, fix...)
	}
}

func (f *findings) summary() Summary {
	n := map[Level]int{}
	for _, c := range f.checks {
		n[c.Level]++
	}
	return Summary{OK: n[OK], Notes: n[Note], Warnings: n[Warning], Errors: n[Error]}
}

// maxLine bounds each text of a check, in characters.
const maxLine = 1000

// line makes a text one line of at most maxLine characters. It joins the lines of errors with
// semicolons.
func line(s string) string {
	return fault.CleanUpTo(strings.ReplaceAll(strings.TrimSpace(s), "\n", "; "), maxLine)
}
