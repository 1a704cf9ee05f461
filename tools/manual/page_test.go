package manual

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"pgregory.net/rapid"
)

// groff shows a page as a terminal would, and fails on whatever groff minds.
func groff(t rapid.TB, page []byte) string {
	t.Helper()
	var out, complaint bytes.Buffer
	cmd := exec.Command("groff", "-man", "-ww", "-Tutf8", "-P-cbou", "-rLL=1000n")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(page), &out, &complaint
	if err := cmd.Run(); err != nil || complaint.Len() > 0 {
		t.Fatalf("groff: %v: %s\nof:\n%s", err, &complaint, page)
	}
	return out.String()
}

func command(name string) *cobra.Command {
	return &cobra.Command{Use: name, Short: "Do it", Long: "It does it.", Run: func(*cobra.Command, []string) {}}
}

// TestTextStandsForItself: whatever a command's texts have in them, groff shows
// that, and obeys none of it.
func TestTextStandsForItself(t *testing.T) {
	line := rapid.StringOfN(rapid.RuneFrom([]rune(`.'\"-^~`+"`"+`%*_[]{}()<>$#@!|;:,/?&=+ abczAZ019ü≥→`)), 1, 60, -1)
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(line, 1, 30).Draw(t, "lines")
		cmd := command("ebb")
		cmd.Long = "Literally:\n"
		for _, l := range lines {
			cmd.Long += "\n  |" + l + "|"
		}
		cmd.Short = lines[0]
		cmd.Flags().String("flag", "", "."+strings.ReplaceAll(lines[0], "`", ""))
		shown := groff(t, Page(cmd, 1))
		for _, l := range lines {
			if !strings.Contains(shown, "  |"+l+"|\n") {
				t.Fatalf("%q is not in:\n%s", l, shown)
			}
		}
	})
}

func TestPage(t *testing.T) {
	root, child, hidden := command("ebb"), command("look"), command("secret")
	root.Run = nil
	hidden.Hidden = true
	root.AddCommand(child, hidden)
	child.Use = "look NODE"
	child.Example = "  # like this\n  ebb look a\n\n  # or that\n  ebb look b"
	child.Long = "First it looks,\nthen it says:\n\n  - one\n\n  - two\nThe end.\n.so /etc/passwd"
	child.Flags().StringP("output", "o", "text", "`format` of it")
	child.Flags().Bool("old", false, "gone")
	child.Flags().Int("most", 0, "at most")
	if err := child.Flags().MarkHidden("old"); err != nil {
		t.Fatal(err)
	}
	shown := groff(t, Page(child, 1))
	for _, want := range []string{
		"ebb-look - Do it", "ebb look NODE [flags]", "First it looks, then it says:\n", "         - one\n\n         - two\n",
		"The end.  .so /etc/passwd\n", "-o, --output format\n              format of it (default text)\n", "--most int\n              at most\n",
		"         ebb look a\n\n         # or that\n", "ebb(1), ebb-agent(8), ebb-controller(8)",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in:\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "--old") {
		t.Error("a hidden flag is shown")
	}
	shown = groff(t, Page(root, 1))
	for _, want := range []string{"ebb COMMAND [flags]", "ebb-look(1)\n              Do it\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in:\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "secret") {
		t.Error("a hidden command is shown")
	}
	files, err := Files(root, 1)
	if err != nil || len(files) != 5 || files["docs/man/ebb-look.1"] == nil || files["deploy/completions/zsh/_ebb"] == nil {
		t.Errorf("%d files, %v", len(files), err)
	}
}
