package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/bpf"
)

var report = &bpf.Report{
	PinDir: "/sys/fs/bpf/ebb",
	Objects: []bpf.ObjectReport{
		{
			Name: "lastuse", State: bpf.StatePinned,
			Programs: []bpf.ProgramReport{
				{Name: "lastuse_exec", AttachPoint: "sched_process_exec", Attached: true, ID: 7, Runs: 1200, Nanoseconds: 215},
				{Name: "lastuse_exit", AttachPoint: "sched_process_exit", Attached: true, ID: 8, Reason: "less exact"},
			},
			Maps: []bpf.MapReport{{Name: "layers", Type: "Hash", MaxEntries: 16384, Entries: 8192, Bytes: 1442848}},
		},
		{
			Name: "usage", State: bpf.StateFailed, Reason: "no ext4 here",
			Programs: []bpf.ProgramReport{{Name: "usage_inode", AttachPoint: "ext4_allocate_inode", Reason: "no ext4 here"}},
		},
		{
			Name: "evil", State: bpf.StateOther,
			Programs: []bpf.ProgramReport{{Name: "a\nb\x1b[2J", Attached: true}},
		},
	},
	MapBytes: 1442848,
	Events:   []bpf.Count{{Event: "exec", Count: 3}},
	Lost:     []bpf.Count{{Event: "ring_buffer_full", Count: 12}},
}

const wantReport = `Pinned below /sys/fs/bpf/ebb.

PROGRAM       ATTACHED TO          STATE               RUNS  NS/RUN  MISSED
lastuse_exec  sched_process_exec   pinned              1200     215       0
lastuse_exit  sched_process_exit   pinned                 -       -       0
usage_inode   ext4_allocate_inode  not attached           -       -       0
a b�[2J       -                    other                  -       -       0
  ! lastuse_exit: less exact
  ! usage: no ext4 here

MAP       TYPE  ENTRIES    ROOM   FULL  KERNEL MEMORY
layers    hash     8192   16384   50 %       1.376MiB
all maps                                     1.376MiB

EVENT                        COUNT
exec                             3
lost: ring_buffer_full          12
`

func TestReportText(t *testing.T) {
	if diff := cmp.Diff(wantReport, reportText(report)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestProbeReport(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: loading programs needs root")
	}
	config := filepath.Join(t.TempDir(), "agent.yaml")
	pins := filepath.Join(t.TempDir(), "pins")
	if err := os.WriteFile(config, []byte("kernel: {pinDirectory: "+pins+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var text, asJSON, errs bytes.Buffer
	ctx := context.Background()
	if err := run(ctx, []string{"report", "--config", config}, &text, &errs); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Nothing is pinned", "lastuse_exec", "sched_process_exec", "all maps", "ring_buffer_full"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	if err := run(ctx, []string{"report", "--config", config, "--output", "json"}, &asJSON, &errs); err != nil {
		t.Fatal(err)
	}
	var r bpf.Report
	if err := json.Unmarshal(asJSON.Bytes(), &r); err != nil || !r.Trial || len(r.Objects) < 3 {
		t.Errorf("%v: %s", err, asJSON.String())
	}
	if _, err := os.Stat(pins); !os.IsNotExist(err) {
		t.Errorf("the report left %s: %v", pins, err)
	}
	if err := run(ctx, []string{"report", "--output", "yaml"}, &text, &errs); err == nil || !strings.Contains(err.Error(), "yaml") {
		t.Errorf("--output yaml: %v", err)
	}
	if err := run(ctx, []string{"report", "unload"}, &text, &errs); err == nil {
		t.Error("unload beside report was accepted")
	}
}
