package manual

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Page is the manual page of one command, in a section.
func Page(cmd *cobra.Command, section int) []byte {
	p := &page{}
	name := pageName(cmd)
	p.line(`.\" Made from the command by "make docs"; changes here are lost.`)
	p.line(`.TH "%s" "%d" "" "ebb" "ebb"`, strings.ToUpper(escape(name)), section)
	p.line(".nh\n.ad l") // words are looked for, and copied, as they are
	p.line(".SH NAME\n%s \\- %s", escape(name), escape(cmd.Short))
	p.line(".SH SYNOPSIS\n.nf")
	p.line("%s", escape(synopsis(cmd)))
	p.line(".fi\n.SH DESCRIPTION")
	p.text(cmd.Long)
	p.options(cmd)
	p.commands(cmd, section)
	if cmd.Example != "" {
		p.line(".SH EXAMPLES")
		p.text(cmd.Example)
	}
	p.related(cmd, section)
	return []byte(p.String())
}

// pageName joins a command's words, as git and others name their pages.
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func synopsis(cmd *cobra.Command) string {
	if !cmd.Runnable() && len(children(cmd)) > 0 {
		return cmd.CommandPath() + " COMMAND [flags]"
	}
	return cmd.UseLine()
}

type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// text writes paragraphs. Lines that are indented stay lines.
func (p *page) text(text string) {
	literal := false
	set := func(to bool) {
		if literal != to {
			p.line("%s", map[bool]string{true: ".PP\n.nf", false: ".fi\n.PP"}[to])
		}
		literal = to
	}
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range lines {
		switch {
		case line == "" && literal && i+1 < len(lines) && strings.HasPrefix(lines[i+1], " "):
			p.line(`\&`) // a blank line of a literal text
		case line == "":
			set(false)
			p.line(".PP")
		default:
			set(strings.HasPrefix(line, " "))
			p.line("%s", escapeLine(line))
		}
	}
	set(false)
}

func (p *page) options(cmd *cobra.Command) {
	p.line(".SH OPTIONS")
	for _, f := range flagsOf(cmd) {
		name := `\fB\-\-` + escape(f.Name) + `\fR`
		if f.Shorthand != "" {
			name = `\fB\-` + escape(f.Shorthand) + `\fR, ` + name
		}
		value, usage := pflag.UnquoteUsage(f)
		if value != "" {
			name += ` \fI` + escape(value) + `\fR`
		}
		p.line(".TP\n%s\n%s", name, escapeLine(usage))
		if hasDefault(f) {
			p.line("(default %s)", escape(f.DefValue))
		}
	}
}

// flagsOf are a command's flags, its parents' included, by name.
func flagsOf(cmd *cobra.Command) []*pflag.Flag {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	var list []*pflag.Flag
	add := func(f *pflag.Flag) {
		if !f.Hidden && f.Deprecated == "" {
			list = append(list, f)
		}
	}
	cmd.NonInheritedFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	slices.SortFunc(list, func(a, b *pflag.Flag) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func hasDefault(f *pflag.Flag) bool {
	return !slices.Contains([]string{"", "false", "0", "0s", "[]"}, f.DefValue)
}

func (p *page) commands(cmd *cobra.Command, section int) {
	list := children(cmd)
	if len(list) == 0 {
		return
	}
	p.line(".SH COMMANDS")
	for _, child := range list {
		p.line(".TP\n.BR %s (%d)\n%s", escape(pageName(child)), section, escapeLine(child.Short))
	}
}

// children are the commands below one that people are to know of.
func children(cmd *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(cmd.Commands()), func(c *cobra.Command) bool {
		return !c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand()
	})
}

// programs are those with pages of their own, and their sections.
var programs = []struct {
	name    string
	section int
}{{"ebb", 1}, {"ebb-agent", 8}, {"ebb-controller", 8}}

func (p *page) related(cmd *cobra.Command, section int) {
	var list []string
	if cmd.HasParent() {
		list = append(list, fmt.Sprintf(".BR %s (%d)", escape(pageName(cmd.Parent())), section))
	}
	for _, other := range programs {
		if name := cmd.Root().Name(); other.name != name {
			list = append(list, fmt.Sprintf(".BR %s (%d)", escape(other.name), other.section))
		}
	}
	p.line(".SH SEE ALSO\n%s", strings.Join(list, ",\n"))
}

// special are the characters that roff takes for something else, or shows as
// another one: a hyphen for a minus, a bent quote for a straight one.
var special = map[rune]string{
	'\\': `\e`, '-': `\-`, '\'': `\(aq`, '`': `\(ga`, '^': `\(ha`, '~': `\(ti`, '"': `\(dq`,
}

// escape makes text that stands for itself.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch s, ok := special[r]; {
		case ok:
			b.WriteString(s)
		case r == '\n' || r == '\t':
			b.WriteByte(' ')
		case r < ' ' || r == 0x7f: // nothing that a terminal would obey
		case r > '~':
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// escapeLine is escape for what begins a line, where a dot would be a request.
func escapeLine(text string) string {
	escaped := escape(text)
	if strings.HasPrefix(escaped, ".") {
		return `\&` + escaped
	}
	return escaped
}
