package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/agent/preview"
	"github.com/ebb-agent/ebb/tools/buildtest"
)

// testCommand runs it as people do: the exit code is 0 if there is an answer, also
// an incomplete one, which the output reports.
func testCommand(t *testing.T, b *fixture, limited string) {
	ebb := buildtest.Program(t, "cmd/ebb")
	for _, test := range []struct {
		name, args string
		code       int
		out, err   string
	}{
		{"text", "configmap/root -n forbidden --kubeconfig " + b.kubeconfig, 0, "Secret below", ""},
		{"two words", "cm root -n forbidden --kubeconfig " + b.kubeconfig, 0, "Secret below", ""},
		{"incomplete", "cm/root -n forbidden --kubeconfig " + limited, 4, "INCOMPLETE", ""},
		{"incomplete JSON", "cm/root -n forbidden -o json --kubeconfig " + limited, 4, `"complete": false`, "warning: the preview is incomplete"},
		{"other policy", "cm/root -n forbidden --cascade=orphan -o json --kubeconfig " + b.kubeconfig, 0, `"outcome": "orphaned"`, ""},
		{"not there", "cm/nobody -n forbidden --kubeconfig " + b.kubeconfig, 1, "", "cm/nobody in namespace forbidden: not found"},
		{"other namespace", "cm/root --kubeconfig " + b.kubeconfig, 1, "", "in namespace default: not found"},
		{"no such type", "carrots/root --kubeconfig " + b.kubeconfig, 1, "", `"carrots"`},
		{"may not be read", "secret/below -n forbidden --kubeconfig " + limited, 1, "", "cannot be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, errs, code := buildtest.Run(t, exec.CommandContext(t.Context(), ebb, append([]string{"cascade"}, strings.Fields(test.args)...)...))
			if code != test.code {
				t.Errorf("exit code %d, want %d\n%s", code, test.code, errs)
			}
			if !strings.Contains(out, test.out) || !strings.Contains(errs, test.err) || test.err == "" && errs != "" {
				t.Errorf("want %q and %q, got\n%s\n%s", test.out, test.err, out, errs)
			}
			if strings.Contains(test.args, "-o json") {
				var a preview.Answer
				dec := json.NewDecoder(strings.NewReader(out))
				dec.DisallowUnknownFields()
				if err := dec.Decode(&a); err != nil || a.Root == nil || a.Root.Name != "root" {
					t.Errorf("%v: %+v", err, a)
				}
			}
		})
	}
}
