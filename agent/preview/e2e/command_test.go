package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/agent/preview"
	"github.com/ebb-agent/ebb/tools/buildtest"
)

// testCommand runs it as people do: the exit code is 0 if there is an answer, also
// one that lacks something, which is said.
func testCommand(t *testing.T, b *bed, limited string) {
	ebb := buildtest.Program(t, "cmd/ebb")
	for _, test := range []struct {
		name, args string
		code       int
		out, err   string
	}{
		{"text", "configmap/root -n forbidden --kubeconfig " + b.kubeconfig, 0, "Secret below", ""},
		{"two words", "cm root -n forbidden --kubeconfig " + b.kubeconfig, 0, "Secret below", ""},
		{"incomplete", "cm/root -n forbidden --kubeconfig " + limited, 0, "INCOMPLETE", ""},
		{"incomplete JSON", "cm/root -n forbidden -o json --kubeconfig " + limited, 0, `"complete": false`, "warning: the preview is incomplete"},
		{"other policy", "cm/root -n forbidden --policy orphan -o json --kubeconfig " + b.kubeconfig, 0, `"outcome": "orphaned"`, ""},
		{"not there", "cm/nobody -n forbidden --kubeconfig " + b.kubeconfig, 3, "", "cm/nobody in namespace forbidden: not found"},
		{"other namespace", "cm/root --kubeconfig " + b.kubeconfig, 3, "", "in namespace default: not found"},
		{"no such type", "carrots/root --kubeconfig " + b.kubeconfig, 3, "", `"carrots"`},
		{"may not be read", "secret/below -n forbidden --kubeconfig " + limited, 3, "", "cannot be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			cmd := exec.CommandContext(t.Context(), ebb, append([]string{"cascade"}, strings.Fields(test.args)...)...)
			cmd.Stdout, cmd.Stderr = &out, &errs
			err := cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != test.code {
				t.Errorf("exit code %d (%v), want %d\n%s", code, err, test.code, &errs)
			}
			if !strings.Contains(out.String(), test.out) || !strings.Contains(errs.String(), test.err) || test.err == "" && errs.Len() > 0 {
				t.Errorf("want %q and %q, got\n%s\n%s", test.out, test.err, &out, &errs)
			}
			if strings.Contains(test.args, "-o json") {
				var a preview.Answer
				dec := json.NewDecoder(&out)
				dec.DisallowUnknownFields()
				if err := dec.Decode(&a); err != nil || a.Root == nil || a.Root.Name != "root" {
					t.Errorf("%v: %+v", err, a)
				}
			}
		})
	}
}
