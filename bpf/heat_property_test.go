package bpf

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// TestHeatProperty: whatever containers, the host and strangers read, and
// whatever is forgotten, each layer has exactly the files that its own
// containers touched since.
func TestHeatProperty(t *testing.T) {
	const layers, files = 4, 8
	p := loadAlone(t, Options{})
	base := t.TempDir()
	var dirs []string
	for n := range layers {
		dirs = append(dirs, layer(t, fmt.Sprintf("%s/layer%d", base, n), files))
		mkdir(t, filepath.Join(dirs[n], "mnt"))
	}
	// Of two layers with the same file the upper one shows.
	stacks := [][]int{{0}, {1, 0}, {2, 1, 0}, {3, 0}, {3}}
	for n := 1; n < layers; n++ {
		for gone := range files {
			if (gone+n)%3 == 0 {
				os.Remove(filepath.Join(dirs[n], layerFile(gone)))
			}
		}
	}
	var containers []rootfs
	for _, stack := range stacks {
		var lower []string
		for _, n := range stack {
			lower = append(lower, dirs[n])
		}
		containers = append(containers, overlay(t, lower...))
	}
	owner := func(stack []int, file int) int {
		for _, n := range stack {
			if _, err := os.Lstat(filepath.Join(dirs[n], layerFile(file))); err == nil {
				return n
			}
		}
		return -1
	}
	rapid.Check(t, func(rt *rapid.T) {
		oracle, known := make([]map[int]bool, layers), []HeatKey{}
		for n := range dirs {
			oracle[n] = map[int]bool{}
			known = append(known, heatOf(t, p, dirs[n]).HeatKey)
		}
		if err := p.ForgetHeat(known...); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			c, file := rapid.IntRange(0, len(stacks)-1).Draw(rt, "container"), rapid.IntRange(0, files-1).Draw(rt, "file")
			n := owner(stacks[c], file)
			if n < 0 {
				continue
			}
			switch rapid.SampledFrom([]string{"own", "own", "own", "own", "own", "own", "host", "layer", "forget"}).Draw(rt, "what") {
			case "own":
				containers[c].touch(t, layerFile(file))
				oracle[n][file] = true
			case "host":
				if err := touch(filepath.Join(containers[c].dir, layerFile(file))); err != nil {
					t.Fatal(err)
				}
			case "layer":
				if err := touch(filepath.Join(dirs[n], layerFile(file))); err != nil {
					t.Fatal(err)
				}
			case "forget":
				if err := p.ForgetHeat(heatOf(t, p, dirs[n]).HeatKey); err != nil {
					t.Fatal(err)
				}
				oracle[n] = map[int]bool{}
			}
		}
		for n, want := range oracle {
			var bytes uint64
			for file := range want {
				bytes += layerBytes(file)
			}
			if got := heatOf(t, p, dirs[n]); got.Files != uint64(len(want)) || got.Bytes != bytes {
				rt.Fatalf("layer %d: %+v, want %v", n, got, want)
			}
		}
	})
}
