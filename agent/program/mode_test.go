package program

import (
	"bytes"
	"strings"
	"testing"
)

func TestLogStart(t *testing.T) {
	for _, c := range []struct {
		enforces bool
		file     string
		want     string
	}{
		{false, "", `mode=observe version=(devel) reason="mode is observe unless the configuration says otherwise" to_enforce="mode: enforce in a file for --config"`},
		{false, "/etc/ebb/agent.yaml", `to_enforce="mode: enforce in /etc/ebb/agent.yaml"`},
		{true, "/etc/ebb/agent.yaml", `mode=enforce version=(devel) reason="mode: enforce in /etc/ebb/agent.yaml"`},
	} {
		var out bytes.Buffer
		LogStart(Logger("info", "text", &out), c.enforces, c.file)
		if got := strings.Replace(out.String(), "version="+Version(), "version=(devel)", 1); !strings.Contains(got, c.want) {
			t.Errorf("%q is not in %s", c.want, got)
		}
	}
}
