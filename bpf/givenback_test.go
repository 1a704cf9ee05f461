package bpf

import (
	"testing"
	"time"
)

// TestGivenBack: what a removal frees is counted, also while somebody writes as
// much as it frees, and nothing that was only promised.
func TestGivenBack(t *testing.T) {
	// What is counted of an ext4 beyond the blocks of files is one of a file's extent tree, and one of a directory; of
	// an xfs, of inodes and what a file was given beyond its end.
	for kind, more := range map[string]uint64{"ext4": 2, "xfs": 64, "btrfs": 0} {
		t.Run(kind, func(t *testing.T) { testGivenBack(t, kind, more) })
	}
}

func testGivenBack(t *testing.T, kind string, more uint64) {
	p := load(t, Options{})
	fs := NewSuiteDisk(t, kind).fs
	givenBack := func() uint64 {
		t.Helper()
		blocks, ok, err := p.GivenBack(fs.dev)
		if err != nil || !ok {
			t.Fatalf("GivenBack: %d, %v, %v", blocks, ok, err)
		}
		return blocks
	}
	if _, ok, err := p.GivenBack(fs.dev); ok || err != nil {
		t.Fatalf("before a watermark was set: %v, %v", ok, err)
	}
	if err := p.SetWatermark(fs.dev, kind, Watermark{RaiseFree: 1, RearmFree: 1}); err != nil {
		t.Fatal(err)
	}
	if n := givenBack(); n != 0 {
		t.Fatalf("%d blocks of a filesystem on which nothing happened", n)
	}
	a := newActor(t, cgroup(t, "someone"), fs.dir)
	a.do("dd if=/dev/zero of=a bs=1M count=16 status=none && dd if=/dev/zero of=b bs=1M count=16 status=none && sync a b && mkdir d && for i in 1 2 3 4 5 6 7 8; do echo x >d/$i; done && sync d/*")
	for _, step := range []struct {
		script string
		blocks uint64
	}{
		{"rm a", 4096},
		{"dd if=/dev/zero of=c bs=1M count=16 status=none", 0},
		{"rm c", 0}, // never written back
		{"rm b & dd if=/dev/zero of=e bs=1M count=16 status=none; wait", 4096},
		{"truncate -s 4M e", 0},
		{"sync e; truncate -s 0 e", 1024},
		{"rm -r d", 8},
	} {
		before := givenBack()
		a.do(step.script)
		n := givenBack() - before
		switch {
		case kind != "btrfs":
		case step.script == "rm -r d":
			step.blocks = 0 // so small files are in the tree of files
		case step.blocks == 1024:
			step.blocks = 4096 // an extent is freed as a whole
		}
		for end := time.Now().Add(10 * time.Second); n < step.blocks && time.Now().Before(end); n = givenBack() - before {
			time.Sleep(time.Millisecond) // xfs frees them a moment later, btrfs with a commit
			if kind == "btrfs" {
				fs.sync(t)
			}
		}
		written := kind == "xfs" && step.blocks == 0 // it writes what was promised before it cuts a file
		if n < step.blocks || n > step.blocks+more && !written {
			t.Errorf("%s: %d blocks, want %d", step.script, n, step.blocks)
		}
	}
	if err := p.ClearWatermark(fs.dev); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := p.GivenBack(fs.dev); ok || err != nil {
		t.Fatalf("after the watermark was cleared: %v, %v", ok, err)
	}
}
