package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/node"
)

// TestHoldIsCalm: files that are made while nothing can be done about them cause a
// bounded number of looks and words. A container that ends is a change, and its image
// goes soon.
func TestHoldIsCalm(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.V2, plains("a", 3)...)
	all, free := b.inodes()
	high := int(100-free*100/all) + 2
	b.config.Images.InodesHighThresholdPercent, b.config.Images.InodesLowThresholdPercent = high, high-1
	b.config.Images.FutileShare = 0 // the image at the end frees a handful of inodes
	b.sleepIn("a0")
	b.sleepIn("a1")
	ends := b.sleepIn("a2")
	b.start()
	mark := b.journal.mark()
	b.makeFiles(b.overTheThreshold())
	b.journal.await(t, mark, "the low threshold cannot be reached; holding")
	const crossings = `ebb_node_filesystem_threshold_crossings_total{filesystem="images"}`
	before := b.metric(crossings)
	began, dir := time.Now(), 0
	for range 30 {
		dir++
		b.makeFilesIn(dir, int(all/100)+10)
		time.Sleep(20 * time.Millisecond) // the pace of the one who makes files
	}
	took := time.Since(began)
	n := b.metric(crossings) - before
	if most := 1 + took.Seconds()/5 + 1; n > most {
		t.Errorf("%g events for 30 points more in %v, want at most %.1f", n, took, most)
	}
	t.Logf("%g events for 30 points more in %v", n, took)
	for _, message := range []string{"filesystem reached its high threshold", "the low threshold cannot be reached; holding"} {
		if lines := b.journal.since(mark, message); len(lines) != 1 {
			t.Errorf("%d times %q", len(lines), message)
		}
	}
	b.end("a2", ends)
	b.makeFilesIn(dir+1, int(all/100)+10) // the growth so far may have had its look before the end
	line := b.journal.await(t, mark, "image removed")
	if got := b.scenario.name(line.Text("image")); got != "a2" {
		t.Errorf("%s was removed", got)
	}
	b.mustStay("a0", "a1")
}

// TestFutileImagesStay: somebody's small files hold the inodes, seven images a handful
// each. None goes, and the log names what holds the inodes.
func TestFutileImagesStay(t *testing.T) {
	t.Parallel()
	images := plains("a", 7)
	for i := range images {
		images[i].NoBusybox = true // a layer of dozens of inodes that only all together free
	}
	b := newFixture(t, node.V2, images...)
	all, free := b.inodes()
	high := int(100-free*100/all) + 12
	b.config.Images.InodesHighThresholdPercent, b.config.Images.InodesLowThresholdPercent = high, high-10
	b.config.Writers.Top = 10
	b.start()
	mark := b.journal.mark()
	b.makeFiles(b.overTheThreshold())
	line := b.journal.await(t, mark, "the low threshold cannot be reached; holding")
	for _, i := range images {
		b.awaitReason(nameOf(i), "futile")
	}
	if gone := b.removedNames(mark); len(gone) > 0 {
		t.Errorf("%v went for next to nothing", gone)
	}
	if held := line.Text("inodes_held_by"); !strings.HasPrefix(held, "not_images ") || !strings.Contains(held, "futile ") {
		t.Errorf("the inodes are held by %q", held)
	}
	if by := line.Text("written_by"); !strings.Contains(by, " inodes") {
		t.Errorf("written by %q", by)
	}
}
