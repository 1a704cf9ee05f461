package bpf

import (
	"testing"
)

// TestGivenBack: what a removal frees is counted, also while somebody writes as
// much as it frees, and nothing that was only promised.
func TestGivenBack(t *testing.T) {
	p := load(t, Options{})
	fs := newExt4(t, "-b", "4096")
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
	if err := p.SetWatermark(fs.dev, "ext4", Watermark{RaiseFree: 1, RearmFree: 1}); err != nil {
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
		{"rm -r d", 9},
	} {
		before := givenBack()
		a.do(step.script)
		// A block more is one of a file's extent tree.
		if n := givenBack() - before; n < step.blocks || n > step.blocks+1 {
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
