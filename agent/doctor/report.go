package doctor

import (
	"strings"

	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
)

// Level is how a check ended.
type Level string

// The levels, from good to bad.
const (
	OK      Level = "ok"
	Note    Level = "note"    // good to know; nothing needs to be done
	Warning Level = "warning" // works, but not as it should
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
	Fix     []string `json:"fix,omitempty"` // ways out; each is one to choose or one step, as it says
}

// Summary counts the checks by level.
type Summary struct {
	OK       int `json:"ok"`
	Notes    int `json:"notes"`
	Warnings int `json:"warnings"`
	Errors   int `json:"errors"`
}

// KubeletReport is what the kubelet is set to.
type KubeletReport struct {
	PID      int               `json:"pid,omitempty"`
	Complete bool              `json:"complete"` // false: not all could be read
	Settings []kubelet.Setting `json:"settings"`
}

// Report is all that the doctor says.
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

// check adds what is good of a check that passed, else the rest.
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

// maxLine bounds what one check shows of anything.
const maxLine = 1000

// line keeps a text on one line. Errors joined from several have lines of their own.
func line(s string) string {
	return kubelet.Line(strings.ReplaceAll(strings.TrimSpace(s), "\n", "; "), maxLine)
}
