package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/bench/result"
)

const transcriptFile = "transcript.txt"

// notes is the output of a run: on out with exact times, and in text as the page in
// docs/ shows it, with times in whole seconds.
type notes struct {
	out      io.Writer
	shown    *strings.Replacer // replaces paths of this machine
	begun    time.Time
	scenario time.Time
	text     strings.Builder
}

func newNotes(out io.Writer) *notes {
	return &notes{out: out, shown: strings.NewReplacer(), begun: time.Now(), scenario: time.Now()}
}

// begin starts a scenario.
func (n *notes) begin(title string) {
	n.scenario = time.Now()
	n.line("\n%s", title)
}

// command shows what a person would type.
func (n *notes) command(line string) { n.line("  # %s", line) }

// moment matches timestamps, which differ between transcripts.
var moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)

// output quotes the output of a program.
func (n *notes) output(text string) {
	text = moment.ReplaceAllString(text, "…")
	for line := range strings.Lines(strings.TrimSpace(text)) {
		if strings.HasPrefix(line, "go: writing stat cache: ") {
			continue // appears where the cache is read-only
		}
		n.line("    %s", strings.TrimRight(line, "\n"))
	}
}

// ok reports a check that passed.
func (n *notes) ok(format string, args ...any) {
	n.line("  ok  %s", fmt.Sprintf(format, args...))
}

// end reports how long the scenario took.
func (n *notes) end() {
	fmt.Fprintf(n.out, "      %.1f s (%.1f s in all)\n", time.Since(n.scenario).Seconds(), time.Since(n.begun).Seconds())
	fmt.Fprintf(&n.text, "      %.0f s\n", time.Since(n.scenario).Seconds())
}

func (n *notes) line(format string, args ...any) {
	text := n.shown.Replace(fmt.Sprintf(format, args...))
	fmt.Fprintln(n.out, text)
	fmt.Fprintln(&n.text, text)
}

// save writes the transcript for the outer process.
func (n *notes) save(path string) error {
	text := strings.TrimSpace(n.text.String())
	if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
		return fmt.Errorf("save transcript: %w", err)
	}
	return nil
}

// paste puts a transcript into a page.
func paste(page, transcript string) error {
	text, err := os.ReadFile(transcript)
	if err != nil {
		return fmt.Errorf("paste transcript: %w", err)
	}
	return result.Section(page, "transcript", "```\n"+string(text)+"```")
}
