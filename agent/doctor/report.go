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

// Check is one thing that was looked at.
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
	PID      int            `json:"pid,omitempty"`
	Complete bool           `json:"complete"` // false: not all could be read
	Settings []kubelet.Line `json:"settings"`
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

// Exit codes of `ebb doctor`.
const (
	ExitFine     = 0
	ExitWarnings = 1
	ExitErrors   = 2
	ExitNotRun   = 3
)

// ExitCode tells a script how it stands.
func (r *Report) ExitCode() int {
	switch {
	case r.Summary.Errors > 0:
		return ExitErrors
	case r.Summary.Warnings > 0:
		return ExitWarnings
	}
	return ExitFine
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

func (f *findings) summary() (s Summary) {
	for _, c := range f.checks {
		switch c.Level {
		case OK:
			s.OK++
		case Note:
			s.Notes++
		case Warning:
			s.Warnings++
		case Error:
			s.Errors++
		}
	}
	return s
}

// maxLine bounds what one check shows of anything.
const maxLine = 1000

// line keeps a text on one line of visible characters. Errors joined from
// several have lines of their own.
func line(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return ';'
		case r < ' ', r >= 0x7f && r < 0xa0, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return ' ' // controls, and what turns the direction of writing
		}
		return r
	}, strings.ToValidUTF8(strings.TrimSpace(s), "?"))
	s = strings.ReplaceAll(s, ";", "; ")
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > maxLine {
		return string(r[:maxLine]) + "…"
	}
	return s
}
