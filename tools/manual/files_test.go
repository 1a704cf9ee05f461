package manual

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// shown is a page as a terminal has it; groff minds nothing of it.
func shown(t *testing.T, page []byte) string {
	t.Helper()
	var out, complaint bytes.Buffer
	cmd := exec.Command("groff", "-man", "-ww", "-Tutf8", "-P-cbou", "-rLL=1000n")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(page), &out, &complaint
	if err := cmd.Run(); err != nil || complaint.Len() > 0 {
		t.Fatalf("groff: %v: %s\nof:\n%s", err, &complaint, page)
	}
	return out.String()
}

// TestFiles: what commands say is on their pages as it was written, and what is hidden is not.
func TestFiles(t *testing.T) {
	command := func(name string) *cobra.Command {
		return &cobra.Command{Use: name, Short: "Do it", Long: "It does it.", Run: func(*cobra.Command, []string) {}}
	}
	root, child, hidden := command("ebb"), command("look"), command("secret")
	hidden.Hidden = true
	root.AddCommand(child, hidden)
	child.Use = "look NODE"
	child.Short = `Look at *,-some_one and "it's" <b> [x](y)`
	child.Long = "First `it` looks,\nthen it says --kinds=*,-pods_* of #1:\n\n  - one_two_ *\n    \\fBand\n\n  - two\n\nThe end.\n\n.so /etc/passwd"
	child.Example = "  # like this\n  ebb look a | jq '.[\"b\"]' ~/*\n\n  ebb look b"
	child.Flags().StringP("output", "o", "text", "one of text_line, <json> and *")
	child.Flags().Bool("old", false, "gone")
	if err := child.Flags().MarkHidden("old"); err != nil {
		t.Fatal(err)
	}
	files, err := Files(root, 1)
	if err != nil || len(files) != 5 || files["deploy/completions/zsh/_ebb"] == nil {
		t.Fatalf("%d files, %v", len(files), err)
	}
	page := shown(t, files["docs/man/ebb-look.1"])
	for _, want := range []string{
		`ebb-look - Look at *,-some_one and "it's" <b> [x](y)` + "\n", "ebb look NODE [flags]\n", "First `it` looks, then it says --kinds=*,-pods_* of #1:\n",
		"- one_two_ *\n", "\\fBand\n", "The end.\n", ".so /etc/passwd\n", `-o, --output="text"      one of text_line, <json> and *` + "\n",
		"  # like this\n", `  ebb look a | jq '.["b"]' ~/*` + "\n\n", "ebb(1)\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in:\n%s", want, page)
		}
	}
	top := shown(t, files["docs/man/ebb.1"])
	for _, want := range []string{"  look         Look at *,-some_one and", "ebb-look(1)\n"} {
		if !strings.Contains(top, want) {
			t.Errorf("%q is not in:\n%s", want, top)
		}
	}
	for _, not := range []string{"--old", "secret", "0001"} {
		if strings.Contains(page+top, not) {
			t.Errorf("%s is shown:\n%s%s", not, page, top)
		}
	}
}
