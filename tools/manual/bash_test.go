package manual_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/tools/buildtest"
)

// typed has bash complete a line as it does when someone presses the tab key, with
// the completions of the repository, and prints what it offers.
const typed = `
source /usr/share/bash-completion/bash_completion
source "$1"
read -ra COMP_WORDS <<<"$2"
[[ $2 == *' ' ]] && COMP_WORDS+=('')
COMP_LINE=$2 COMP_POINT=${#2} COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_TYPE=63
"$(complete -p "${COMP_WORDS[0]}" | sed 's/.* -F \([^ ]*\) .*/\1/')"
printf '%s\n' "${COMPREPLY[@]}"`

func TestBashCompletes(t *testing.T) {
	bin := buildtest.Programs(t, "cmd/ebb", "cmd/ebb-agent", "cmd/ebb-controller")
	for _, c := range []struct {
		line string
		want []string
	}{
		{"ebb doc", []string{"doctor"}},
		{"ebb doctor --out", []string{"--output"}},
		{"ebb doctor --output ", []string{"json", "text"}},
		{"ebb cascade --cascade f", []string{"foreground"}},
		{"ebb completion b", []string{"bash"}},
		{"ebb-agent re", []string{"report"}},
		{"ebb-agent config d", []string{"default"}},
		{"ebb-agent report --output j", []string{"json"}},
		{"ebb-controller --kube", []string{"--kubeconfig"}},
	} {
		if got := completions(t, bin, c.line); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.line, got, c.want)
		}
	}
}

// completions are what bash offers, without the descriptions.
func completions(t *testing.T, bin, line string) []string {
	t.Helper()
	program, _, _ := strings.Cut(line, " ")
	script := filepath.Join("../../deploy/completions/bash", program)
	cmd := exec.Command("bash", "--norc", "-c", typed, "bash", script, line)
	cmd.Env = append(os.Environ(), fmt.Sprintf("PATH=%s:%s", bin, os.Getenv("PATH")), "COLUMNS=200")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("bash: %v", err)
	}
	var words []string
	for offer := range strings.Lines(string(out)) {
		if fields := strings.Fields(offer); len(fields) > 0 {
			words = append(words, strings.TrimSuffix(fields[0], "="))
		}
	}
	slices.Sort(words)
	return words
}
