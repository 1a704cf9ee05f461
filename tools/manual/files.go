package manual

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// Directories of the files, relative to the top of the repository.
const (
	PageDir       = "docs/man"
	CompletionDir = "deploy/completions"
)

// Files returns all generated files of a program: a page for each of its commands, in
// that section, and a completion for each shell, named as the shell expects. Keys are
// paths relative to the top of the repository. Files replaces the texts of the commands
// by Markdown.
func Files(root *cobra.Command, section int) (map[string][]byte, error) {
	var bash, zsh, fish bytes.Buffer
	if err := root.GenBashCompletionV2(&bash, true); err != nil {
		return nil, fmt.Errorf("write completion for bash: %w", err)
	}
	if err := root.GenZshCompletion(&zsh); err != nil {
		return nil, fmt.Errorf("write completion for zsh: %w", err)
	}
	if err := root.GenFishCompletion(&fish, true); err != nil {
		return nil, fmt.Errorf("write completion for fish: %w", err)
	}
	name := root.Name()
	files := map[string][]byte{
		path.Join(CompletionDir, "bash", name):         bash.Bytes(),
		path.Join(CompletionDir, "zsh", "_"+name):      zsh.Bytes(),
		path.Join(CompletionDir, "fish", name+".fish"): fish.Bytes(),
	}
	return files, pages(root, section, files)
}

// date matches the date in the header of a page.
var date = regexp.MustCompile(`(?m)^(\.TH "[^"]*" "\d" )"[^"]*"`)

func pages(cmd *cobra.Command, section int, files map[string][]byte) error {
	var page bytes.Buffer
	escape(cmd)
	cmd.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: fmt.Sprint(section), Date: &time.Time{}, Source: "ebb", Manual: "ebb"}
	if err := doc.GenMan(cmd, header, &page); err != nil {
		return fmt.Errorf("write page of %s: %w", cmd.CommandPath(), err)
	}
	name := fmt.Sprintf("%s.%d", strings.ReplaceAll(cmd.CommandPath(), " ", "-"), section)
	files[path.Join(PageDir, name)] = date.ReplaceAll(page.Bytes(), []byte(`$1""`))
	for _, child := range children(cmd) {
		if err := pages(child, section, files); err != nil {
			return err
		}
	}
	return nil
}

// children returns the subcommands that --help lists.
func children(cmd *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(cmd.Commands()), func(c *cobra.Command) bool {
		return !c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand()
	})
}

// escape turns a command's texts into Markdown, and adds a list of its subcommands.
func escape(cmd *cobra.Command) {
	cmd.InitDefaultVersionFlag()
	for i, child := range children(cmd) {
		if i == 0 {
			cmd.Long += "\n\nCommands:\n\n"
		}
		cmd.Long += fmt.Sprintf("  %-*s  %s\n", cmd.NamePadding(), child.Name(), child.Short)
	}
	cmd.Short, cmd.Long = markdown(cmd.Short), markdown(cmd.Long)
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { f.Usage = markdown(f.Usage) })
	cmd.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Usage = markdown(f.Usage) })
}

// special matches the characters that have a meaning in Markdown.
var special = regexp.MustCompile("[\\\\`*_{}\\[\\]<>()#+!|~]")

// markdown returns Markdown that shows a text unchanged. Indented lines remain separate
// lines.
func markdown(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, " ") {
			b.WriteString("   " + line)
		} else {
			b.WriteString(special.ReplaceAllString(line, `\$0`))
		}
	}
	return b.String()
}
