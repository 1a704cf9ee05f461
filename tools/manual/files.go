package manual

import (
	"bytes"
	"fmt"
	"path"

	"github.com/spf13/cobra"
)

// Where the files go, from the top of the repository.
const (
	PageDir       = "docs/man"
	CompletionDir = "deploy/completions"
)

// Files are all that is made from a program: a page for each of its commands, in
// that section, and completions for each shell, under the names by which shells
// find them. Keys are paths from the top of the repository.
func Files(root *cobra.Command, section int) (map[string][]byte, error) {
	files := map[string][]byte{}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		files[path.Join(PageDir, fmt.Sprintf("%s.%d", pageName(cmd), section))] = Page(cmd, section)
		for _, child := range children(cmd) {
			walk(child)
		}
	}
	walk(root)
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
	files[path.Join(CompletionDir, "bash", name)] = bash.Bytes()
	files[path.Join(CompletionDir, "zsh", "_"+name)] = zsh.Bytes()
	files[path.Join(CompletionDir, "fish", name+".fish")] = fish.Bytes()
	return files, nil
}
