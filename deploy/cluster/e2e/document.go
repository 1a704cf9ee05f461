package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// section is a part of a page, named by the text of its heading. It includes all lower
// headings below it.
type section struct{ page, heading string }

// followed lists the sections whose every command is run as printed.
var followed = []section{
	{"README.md", "Install it"},
	{"docs/install.md", "On a cluster"},
	{"docs/install.md", "Remove it"},
	{quickstartPage, "The first 15 minutes"},
	{kubeletPage, "Hand over"},
	{operatePage, "Upgrade"},
	{rolloutPage, "2. Canary"},
	{rolloutPage, "Stop at once"},
	{"docs/doctor.md", "Without an agent"},
	{"docs/monitoring.md", "TLS and passwords"},
	{"docs/chart.md", "Test the release"},
	{"docs/chart.md", "Uninstall"},
}

// substitutes replaces the placeholders that pages leave to their readers. Nothing else of a
// command is changed. Everything else that a reader has is real here, too: a registry of the
// printed name (images.go), the programs on the PATH (workplace.go), and the Deployment that
// the commands name. So is a kube-prometheus-stack with a release of the printed name
// (operator.go).
var substitutes = []struct {
	printed *regexp.Regexp
	here    string
}{
	{regexp.MustCompile(`\bIMAGE\b`), appImage},
	{regexp.MustCompile(`\bNODE\b`), nodeName},
	{regexp.MustCompile(`\bPASSWORD\b`), password},
	{regexp.MustCompile(`\$2y\$10\$…`), passwordHash},
}

const (
	password     = "secret"
	passwordHash = "$2a$04$ZzUZUpDOosEw4dRS6r0yeeAIOm.lLoEX/jFVwAY5pxYsKbZPEhESK"
)

func substitute(text string) string {
	for _, s := range substitutes {
		text = s.printed.ReplaceAllLiteralString(text, s.here)
	}
	return text
}

var (
	aHeading = regexp.MustCompile(`^(#+) +(.*)$`)
	aPrompt  = regexp.MustCompile(`^(?:\S+@\S+:\S+)?[#$] +(.*)$`)
	aRemark  = regexp.MustCompile(`\s{2,}# .*$`)
)

// block is a fenced part of a page.
type block struct{ kind, text string }

// blocksOf returns the blocks of a section, in page order.
func blocksOf(page, heading string) (blocks []block, err error) {
	level, fenced, found := 0, false, false
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if kind, fence := strings.CutPrefix(line, "```"); fence {
			if fenced = !fenced; fenced && level > 0 {
				blocks = append(blocks, block{kind: kind})
			}
			continue
		}
		if m := aHeading.FindStringSubmatch(line); m != nil && !fenced {
			if len(m[1]) <= level {
				break
			}
			if level == 0 && m[2] == heading {
				level, found = len(m[1]), true
			}
			continue
		}
		if fenced && level > 0 {
			last := &blocks[len(blocks)-1]
			last.text += line + "\n"
		}
	}
	if !found {
		return nil, fmt.Errorf("no heading %q", heading)
	}
	return blocks, nil
}

// commandsOf returns the commands of a section: lines behind a prompt in console blocks,
// with their backslash continuations and without remarks.
func commandsOf(page, heading string) (commands []string, err error) {
	blocks, err := blocksOf(page, heading)
	continues := false
	for _, b := range blocks {
		if b.kind != "console" {
			continue
		}
		for line := range strings.Lines(b.text) {
			line = strings.TrimSuffix(line, "\n")
			m := aPrompt.FindStringSubmatch(line)
			switch {
			case continues:
				commands[len(commands)-1] += "\n" + line
			case m != nil:
				commands = append(commands, aRemark.ReplaceAllString(m[1], ""))
			default:
				return nil, fmt.Errorf("%q: neither a command nor a part of one", line)
			}
			continues = strings.HasSuffix(line, `\`)
		}
	}
	if err == nil && (len(commands) == 0 || continues) {
		err = fmt.Errorf("%d commands, or one without an end", len(commands))
	}
	return commands, err
}

var namedFile = regexp.MustCompile(`^# (\S+\.ya?ml)\n`)

// filesOf returns the YAML files that a section shows, by the names in their first lines.
func filesOf(page, heading string) (map[string]string, error) {
	blocks, err := blocksOf(page, heading)
	files := map[string]string{}
	for _, b := range blocks {
		if m := namedFile.FindStringSubmatch(b.text); b.kind == "yaml" && m != nil {
			files[m[1]] = b.text
		}
	}
	return files, err
}

// progress records how far the pages were followed.
type progress struct {
	ran    map[string]bool // printed commands that succeeded
	pushed time.Time       // when the registry had the image
	since  int             // commands since then
}

// printed returns the commands of a section.
func (b *fixture) printed(page, heading string) []string {
	text := need(os.ReadFile(page))
	commands, err := commandsOf(string(text), heading)
	if err != nil {
		fail("%s, %q: %w", page, heading, err)
	}
	return commands
}

// follow runs the commands of a section, and returns their output.
func (b *fixture) follow(page, heading string) (output string) {
	for _, command := range b.printed(page, heading) {
		out, err := b.typed(command)
		if err != nil {
			fail("%s, %q: %w", page, heading, err)
		}
		b.progress.ran[command] = true
		output += out
	}
	return output
}

// followRest runs the commands of a section, without builds and releases that were made before. A finding
// of ebb (exit code 3) does not end it, because findings depend on this machine.
func (b *fixture) followRest(page, heading string) (output string) {
	for _, command := range b.printed(page, heading) {
		if made := strings.HasPrefix(command, "make ") || strings.HasPrefix(command, "helm "); made && b.progress.ran[command] {
			continue
		}
		out, err := b.typed(command)
		if ended := new(exec.ExitError); err != nil && (!errors.As(err, &ended) || ended.ExitCode() != 3) {
			fail("%s, %q: %w", page, heading, err)
		}
		b.progress.ran[command] = true
		output += out
	}
	return output
}

// typed runs a printed command in a shell, in the tree, as a person does.
func (b *fixture) typed(command string) (string, error) {
	line := substitute(command)
	b.notes.command(line)
	b.progress.since++
	cmd := exec.CommandContext(b, "bash", "-c", line)
	cmd.Dir, cmd.Env, cmd.WaitDelay = b.tree, b.shellEnv, time.Second
	out, err := cmd.CombinedOutput()
	output := string(out)
	if err != nil {
		return output, fmt.Errorf("%s: %w: %s", line, err, tail(output))
	}
	// helm's output after an installation is long and comes from the chart.
	if !strings.HasPrefix(line, "helm install") && !strings.HasPrefix(line, "helm upgrade") {
		b.notes.output(output)
	}
	return output, nil
}

// writeFiles writes the files that a section shows into the tree.
func (b *fixture) writeFiles(page, heading string) (paths []string) {
	text := need(os.ReadFile(page))
	for name, content := range need(filesOf(string(text), heading)) {
		path := filepath.Join(b.tree, name)
		must(os.WriteFile(path, []byte(substitute(content)), 0o600))
		paths = append(paths, path)
	}
	return paths
}

// allPrinted fails if a page has a command that was not run. A command that several pages
// print has to run once.
func (b *fixture) allPrinted() {
	var left []string
	for _, s := range followed {
		for _, command := range b.printed(s.page, s.heading) {
			if !b.progress.ran[command] {
				left = append(left, s.page+": "+command)
			}
		}
	}
	if len(left) > 0 {
		fail("printed, and not run: %q", left)
	}
	var pages []string
	for _, s := range followed {
		pages = append(pages, s.page)
	}
	b.notes.ok("every command that %s print for a cluster was run: %d", strings.Join(slices.Compact(pages), ", "), len(b.progress.ran))
}
