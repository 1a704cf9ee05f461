package doctor

import (
	"errors"
	"fmt"
	"io"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
)

// levelsOf judges, and returns the level of each check by ID.
func levelsOf(f Facts) map[string]Level {
	levels := map[string]Level{}
	for _, c := range Evaluate(f).Checks {
		levels[c.ID] = c.Level
	}
	return levels
}

func set(m map[string]kubelet.Value[string], signal, v string) {
	m[signal] = kubelet.Value[string]{V: v, From: "test"}
}

// apart puts the kubelet's directories on a disk of their own.
func apartFrom(f *Facts, dev uint64, names ...string) {
	for i := range f.Disks {
		for _, name := range names {
			if f.Disks[i].Name == name {
				f.Disks[i].Dev = dev
			}
		}
	}
}

func TestThresholds(t *testing.T) {
	const bytes, inodes = "eviction-threshold.images.bytes", "eviction-threshold.images.inodes"
	for name, c := range map[string]struct {
		change func(f *Facts)
		want   map[string]Level // "": there is no such check
	}{
		"as it comes":   {func(*Facts) {}, map[string]Level{bytes: OK, inodes: OK, "pressure.images.bytes": ""}},
		"meets":         {func(f *Facts) { f.Config.Images.HighThresholdPercent = 85 }, map[string]Level{bytes: Error, inodes: OK}},
		"above":         {func(f *Facts) { f.Config.Images.HighThresholdPercent = 99 }, map[string]Level{bytes: Error}},
		"one point":     {func(f *Facts) { f.Config.Images.HighThresholdPercent = 84 }, map[string]Level{bytes: Warning}},
		"two points":    {func(f *Facts) { f.Config.Images.HighThresholdPercent = 83 }, map[string]Level{bytes: Warning}},
		"three points":  {func(f *Facts) { f.Config.Images.HighThresholdPercent = 82 }, map[string]Level{bytes: OK}},
		"off":           {func(f *Facts) { f.Config.Images.HighThresholdPercent = 100 }, map[string]Level{bytes: Warning}},
		"inodes meet":   {func(f *Facts) { f.Config.Images.InodesHighThresholdPercent = 95 }, map[string]Level{bytes: OK, inodes: Error}},
		"inodes off":    {func(f *Facts) { f.Config.Images.InodesHighThresholdPercent = 100 }, map[string]Level{inodes: Note}},
		"soft":          {func(f *Facts) { set(f.Kubelet.Settings.EvictionSoft, "imagefs.available", "25%") }, map[string]Level{bytes: Error}},
		"quantity":      {func(f *Facts) { set(f.Kubelet.Settings.EvictionHard, "imagefs.available", "20Gi") }, map[string]Level{bytes: Error}}, // of 100 GiB
		"less quantity": {func(f *Facts) { set(f.Kubelet.Settings.EvictionHard, "imagefs.available", "1Gi") }, map[string]Level{bytes: OK}},
		"more than all": {func(f *Facts) { set(f.Kubelet.Settings.EvictionHard, "imagefs.available", "200Gi") }, map[string]Level{bytes: Error, "pressure.images.bytes": Error}},
		"inodes quantity": {func(f *Facts) { set(f.Kubelet.Settings.EvictionHard, "imagefs.inodesFree", "2M") }, // of 6.5 million
			map[string]Level{inodes: Error}},
		"nodefs counts where images are": {func(f *Facts) { set(f.Kubelet.Settings.EvictionHard, "nodefs.available", "20%") }, map[string]Level{bytes: Error}},
		"nodefs apart": {func(f *Facts) {
			set(f.Kubelet.Settings.EvictionHard, "nodefs.available", "20%")
			apartFrom(f, 9, DiskKubelet, DiskNode, DiskLogs)
		}, map[string]Level{bytes: OK, "eviction-threshold.kubelet.bytes": Error}},
		"nodefs apart, off": {func(f *Facts) {
			f.Config.Filesystems.Kubelet.HighThresholdPercent = 100
			f.Config.Filesystems.PodLogs.HighThresholdPercent = 100
			apartFrom(f, 9, DiskKubelet, DiskNode, DiskLogs)
		}, map[string]Level{"eviction-threshold.kubelet.bytes": Note}},
		"logs' threshold is the lower one": {func(f *Facts) {
			f.Config.Filesystems.Kubelet.HighThresholdPercent = 95
			apartFrom(f, 9, DiskKubelet, DiskNode, DiskLogs)
		}, map[string]Level{"eviction-threshold.kubelet.bytes": OK}},
		"writable layers apart go by imagefs": {func(f *Facts) {
			apartFrom(f, 9, DiskKubelet, DiskNode, DiskLogs)
			apartFrom(f, 10, DiskContainers)
			set(f.Kubelet.Settings.EvictionHard, "imagefs.available", "20%")
		}, map[string]Level{bytes: Error, "eviction-threshold.containers.bytes": Error}},
		"content apart has no threshold of the kubelet's": {func(f *Facts) {
			apartFrom(f, 10, DiskContent)
			f.Config.Images.HighThresholdPercent = 90
		}, map[string]Level{bytes: Error, "eviction-threshold.content.bytes": OK}},
		"a threshold that is off": {func(f *Facts) {
			clear(f.Kubelet.Settings.EvictionHard)
			set(f.Kubelet.Settings.EvictionHard, "imagefs.available", "0%")
			f.Config.Images.HighThresholdPercent = 99
		}, map[string]Level{bytes: OK, inodes: OK}},
		"none at all": {func(f *Facts) { clear(f.Kubelet.Settings.EvictionHard) }, map[string]Level{"eviction": Warning, bytes: OK}},
		"misspelt": {func(f *Facts) { set(f.Kubelet.Settings.EvictionHard, "imagefs.available", "fifteen") },
			map[string]Level{"eviction.unreadable": Warning}},
		"containerfs": {func(f *Facts) { set(f.Kubelet.Settings.EvictionHard, "containerfs.available", "50%") },
			map[string]Level{"eviction.containerfs": Note, bytes: OK}},
		"no inodes": {func(f *Facts) {
			for i := range f.Disks {
				f.Disks[i].Figures.Inodes = 0
			}
		}, map[string]Level{bytes: OK, inodes: ""}},
		"pressure":   {func(f *Facts) { f.Disks[0].Figures.AvailableBytes = gib }, map[string]Level{"pressure.images.bytes": Error, bytes: OK}},
		"not known":  {func(f *Facts) { f.Kubelet = KubeletFacts{} }, map[string]Level{bytes: "", "kubelet": Warning}},
		"incomplete": {func(f *Facts) { f.Kubelet.Err = kubelet.ErrWithin; f.Kubelet.Chosen.Within = "k3s" }, map[string]Level{bytes: "", "kubelet": Warning, "image-collectors": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			c.change(&f)
			got := levelsOf(f)
			for id, want := range c.want {
				if got[id] != want {
					t.Errorf("%s is %q, want %q", id, got[id], want)
				}
			}
		})
	}
}

// TestThresholdsAgainstArithmetic: an error is exactly a threshold that is not below the
// lowest of the kubelet's, a warning one within two points; in exact fractions.
func TestThresholdsAgainstArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := healthy()
		s := &f.Kubelet.Settings
		clear(s.EvictionHard)
		capacity := rapid.Uint64Range(1<<30, 1<<50).Draw(t, "capacity")
		high := rapid.IntRange(1, 99).Draw(t, "high")
		f.Config.Images.HighThresholdPercent = high
		nearest := new(big.Rat) // used percent of the lowest threshold
		counted := 0
		for _, m := range []map[string]kubelet.Value[string]{s.EvictionHard, s.EvictionSoft} {
			for _, signal := range []string{"imagefs.available", "nodefs.available", "containerfs.available", "memory.available"} {
				if !rapid.Bool().Draw(t, "set") {
					continue
				}
				used, text := drawThreshold(t, capacity)
				set(m, signal, text)
				if signal == "memory.available" || signal == "containerfs.available" {
					continue
				}
				if counted++; counted == 1 || used.Cmp(nearest) < 0 {
					nearest = used
				}
			}
		}
		for i := range f.Disks {
			f.Disks[i].Figures = image.Disk{CapacityBytes: capacity, AvailableBytes: capacity}
		}
		distance := new(big.Rat).Sub(nearest, big.NewRat(int64(high), 1))
		want := OK
		switch {
		case counted == 0:
		case distance.Sign() <= 0:
			want = Error
		case distance.Cmp(big.NewRat(2, 1)) <= 0:
			want = Warning
		}
		if got := levelsOf(f)["eviction-threshold.images.bytes"]; got != want {
			t.Fatalf("high %d, nearest %s: %q, want %q; %v %v", high, nearest.FloatString(6), got, want, s.EvictionHard, s.EvictionSoft)
		}
	})
}

// drawThreshold returns a threshold and its used percent, exactly.
func drawThreshold(t *rapid.T, capacity uint64) (*big.Rat, string) {
	hundred := big.NewRat(100, 1)
	if rapid.Bool().Draw(t, "percent") {
		tenths := rapid.Int64Range(1, 99).Draw(t, "percents")
		return new(big.Rat).Sub(hundred, big.NewRat(tenths, 1)), fmt.Sprintf("%d%%", tenths)
	}
	mib := rapid.Int64Range(1, int64(capacity>>20)).Draw(t, "MiB")
	share := new(big.Rat).SetFrac(big.NewInt(mib<<20), new(big.Int).SetUint64(capacity))
	return new(big.Rat).Sub(hundred, share.Mul(share, hundred)), fmt.Sprintf("%dMi", mib)
}

func TestCollectors(t *testing.T) {
	const images, containers, keeping = "image-collectors", "container-collectors", "container-keeping"
	theirs := func(f *Facts) {
		d := kubelet.Defaults()
		s := &f.Kubelet.Settings
		s.ImageGCHighThresholdPercent, s.MaximumDeadPerContainer = d.ImageGCHighThresholdPercent, d.MaximumDeadPerContainer
	}
	down := func(f *Facts) { f.Agent.Answered, f.Agent.Holder = false, "" }
	observes := func(f *Facts) { f.Config.Mode = config.ModeObserve }
	all := func(changes ...func(*Facts)) []func(*Facts) { return changes }
	for name, c := range map[string]struct {
		changes []func(f *Facts)
		want    map[string]Level
	}{
		"ebb alone":             {nil, map[string]Level{images: OK, containers: OK, keeping: ""}},
		"both":                  {all(theirs), map[string]Level{images: Warning, containers: Note, keeping: ""}},
		"the kubelet alone":     {all(theirs, observes), map[string]Level{images: Note, containers: OK}},
		"the kubelet, ebb down": {all(theirs, down), map[string]Level{images: Note, containers: OK}},
		"nobody, ebb observes":  {all(observes), map[string]Level{images: Error, containers: Warning}},
		"nobody, ebb down":      {all(down), map[string]Level{images: Error, containers: Warning}},
		"ebb down, but seen":    {all(down, func(f *Facts) { f.Agent.PID = 7 }), map[string]Level{images: OK, "agent.running": Note}},
		"by age":                {all(func(f *Facts) { f.Kubelet.Settings.ImageMaximumGCAge.V = 1 }), map[string]Level{images: Warning}},
		"flags unknown":         {all(func(f *Facts) { f.Kubelet.Settings.FlagsKnown = false }), map[string]Level{containers: Note, "kubelet.root": Note}},
		"logs elsewhere":        {all(func(f *Facts) { f.Kubelet.Settings.PodLogsDir.V = "/data/logs" }), map[string]Level{"pod-logs": Warning}},
		"logs where ebb looks":  {all(func(f *Facts) { f.Kubelet.Settings.PodLogsDir.V = "/var/log/pods/" }), map[string]Level{"pod-logs": ""}},
		"nothing is pinned":     {all(func(f *Facts) { f.Runtime.Pinned = false }), map[string]Level{"runtime.sandbox": Warning}},
		"images unread":         {all(func(f *Facts) { f.Runtime.Pinned, f.Runtime.SandboxErr = false, io.EOF }), map[string]Level{"runtime.sandbox": Error}},
		"ebb keeps three":       {all(func(f *Facts) { f.Config.Containers.MaxPerPodContainer = 3 }), map[string]Level{keeping: Note}},
		"ebb keeps all":         {all(func(f *Facts) { f.Config.Containers.MaxPerPodContainer = -1 }), map[string]Level{keeping: Note}},
		"both keep three": {all(func(f *Facts) {
			f.Config.Containers.MaxPerPodContainer, f.Kubelet.Settings.MaximumDeadPerContainer.V = 3, 3
		}), map[string]Level{keeping: "", containers: Note}},
		"ebb leaves containers": {all(theirs, func(f *Facts) { f.Config.Containers.Enabled = false }), map[string]Level{containers: OK, images: Warning}},
		"stale":                 {all(func(f *Facts) { f.Kubelet.Changed = []string{"/a"} }), map[string]Level{"kubelet.stale": Warning}},
		"not allowed to ask":    {all(func(f *Facts) { f.Kubelet.AskErr = errors.New("403") }), map[string]Level{"kubelet.asked": Note, images: OK}},
		"asked in vain": {all(func(f *Facts) { f.Kubelet.AskErr, f.Kubelet.Demanded = errors.New("401"), true }),
			map[string]Level{"kubelet.asked": Warning, images: OK}},
		"other socket": {all(func(f *Facts) { f.Runtime.SameAsTheirs = false }), map[string]Level{"runtime.endpoint": Error}},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			for _, change := range c.changes {
				change(&f)
			}
			got := levelsOf(f)
			for id, want := range c.want {
				if got[id] != want {
					t.Errorf("%s is %q, want %q", id, got[id], want)
				}
			}
		})
	}
}

func TestProbes(t *testing.T) {
	failed := func(name, reason string) bpf.ObjectReport {
		return bpf.ObjectReport{Name: name, State: bpf.StateFailed, Reason: reason}
	}
	for name, c := range map[string]struct {
		change func(f *Facts)
		want   map[string]Level
	}{
		"as it comes":            {func(*Facts) {}, map[string]Level{"probes": OK}},
		"skipped":                {func(f *Facts) { f.Probes = ProbeFacts{Skipped: "so"} }, map[string]Level{"probes": Note}},
		"unreadable":             {func(f *Facts) { f.Probes = ProbeFacts{Err: bpf.ErrUnsupported} }, map[string]Level{"probes": Warning}},
		"last use":               {func(f *Facts) { addObject(f, failed("lastuse", "refused")) }, map[string]Level{"probes": OK, "probes.lastuse": Warning}},
		"overlay comes late":     {func(f *Facts) { addObject(f, failed("lastuse", "module overlay is not loaded; x")) }, map[string]Level{"probes.lastuse": Note}},
		"this disk's thresholds": {func(f *Facts) { addObject(f, failed("usage_ext4", "refused")) }, map[string]Level{"probes.usage_ext4": Warning}},
		"no such disk here":      {func(f *Facts) { addObject(f, failed("usage_xfs", "refused")) }, map[string]Level{"probes.usage_xfs": ""}},
		"writers off":            {func(f *Facts) { addObject(f, failed("writers", "refused")) }, map[string]Level{"probes.writers": ""}},
		"writers on": {func(f *Facts) { f.Config.Writers.Top = 1; addObject(f, failed("writers_ext4", "refused")) },
			map[string]Level{"probes.writers_ext4": Warning}},
		"heat":         {func(f *Facts) { addObject(f, failed("heat", "refused")) }, map[string]Level{"probes.heat": Note}},
		"nothing":      {func(f *Facts) { f.Probes.Report.Objects = nil }, map[string]Level{"probes": Warning}},
		"capabilities": {func(f *Facts) { f.Probes.Report.Trial = true; f.Kernel.Missing = make([]bpf.Capability, 1) }, map[string]Level{"probes": Note}},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			c.change(&f)
			got := levelsOf(f)
			for id, want := range c.want {
				if got[id] != want {
					t.Errorf("%s is %q, want %q", id, got[id], want)
				}
			}
		})
	}
}

func addObject(f *Facts, o bpf.ObjectReport) {
	f.Probes.Report.Objects = append(f.Probes.Report.Objects, o)
}

// TestWaysOut: each warning and each error has a reason and a fix.
func TestWaysOut(t *testing.T) {
	for name, change := range screens {
		f := healthy()
		change(&f)
		for _, c := range Evaluate(f).Checks {
			if (c.Level == Warning || c.Level == Error) && (c.Why == "" || len(c.Fix) == 0) {
				t.Errorf("%s: %s leaves people alone: %+v", name, c.ID, c)
			}
		}
	}
}

// TestLine: whatever is shown is one line of bounded length that no terminal
// takes for a command.
func TestLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.SampledFrom([]rune("a ;\n\x1b\u202eé\u009b\x7f")), 0, 2*maxLine, -1)).Draw(t, "text")
		if rapid.Bool().Draw(t, "broken") {
			text += "\xff\x1b[2J"
		}
		got := line(text)
		for _, r := range got {
			if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\u2028' {
				t.Fatalf("%q has %q", got, r)
			}
		}
		if len([]rune(got)) > maxLine+1 {
			t.Fatalf("%d runes", len([]rune(got)))
		}
		if len([]rune(got)) <= maxLine && line(got) != got {
			t.Fatalf("%q becomes %q", got, line(got))
		}
	})
}
