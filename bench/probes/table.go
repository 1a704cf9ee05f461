package main

import (
	"fmt"

	"github.com/ebb-agent/ebb/bench/result"
)

// figures are the parts of probes.json that the section shows.
type figures struct {
	Loss      map[string]loss `json:"loss"`
	Crossings float64         `json:"crossings"`
	Missed    float64         `json:"crossings_missed"`
	SeenP99   float64         `json:"crossing_seen_p99_ms"`
	SeenMax   float64         `json:"crossing_seen_max_ms"`
}

// text returns the section. It shows what costs much beside what costs little.
func (f figures) text() string {
	rows := [][]string{{"", "CPU time, %", "between", "control", "by the clock, %"}}
	for _, w := range [][2]string{
		{"read", "4 KiB read from the page cache"}, {"open", "open, read and close a small file of an image"}, {"exec", "run a program of an image"},
		{"write", "buffered 1 MiB write, ext4"}, {"write_near", "the same while a filesystem is near its threshold"},
		{"write_near_threshold", "buffered 128 KiB write, ext4 at most 64 blocks from its threshold"},
		{"write_xfs", "buffered 1 MiB write, xfs"}, {"write_near_xfs", "the same while a filesystem is near its threshold"},
		{"write_btrfs", "buffered 1 MiB write, btrfs"}, {"write_near_btrfs", "the same while a filesystem is near its threshold"},
		{"direct_write", "direct 4 KiB write into a hole, ext4"},
	} {
		l, ok := f.Loss[w[0]]
		row := []string{w[1], "not measured"}
		if ok {
			row = []string{w[1], fmt.Sprintf("%.1f", l.Percent), fmt.Sprintf("%.1f and %.1f", l.Low, l.High), fmt.Sprintf("%.1f", l.Control), fmt.Sprintf("%.1f", l.WallPercent)}
		}
		rows = append(rows, row)
	}
	return `## Kernel programs: what they cost, and whether they miss anything

What an operation loses to the programs that the agent attaches by default, in percent; the true median lies between the two with 95 % probability, and "control" is the
same for windows that do not differ. All is in memory: on a disk that is slower than memory the loss by the clock is less. The programs for each block are attached only while a filesystem
is near its threshold.

` + result.Table(rows) + fmt.Sprintf(`
The heat of layers by fentry and by kprobe, which other kernels than this one need, has been run in emulated machines alone: what it costs is not measured on hardware.

Of %.0f random crossings %.0f were missed; 99 of 100 were seen within %v ms, and all within %v ms.
`, f.Crossings, f.Missed, f.SeenP99, f.SeenMax)
}

// render writes the section of the report from probes.json in a directory.
func render(results string) error { return result.Render(results, "probes", figures.text) }
