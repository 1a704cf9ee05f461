package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// ballast is a file of people's own data, which ebb must not remove.
	ballast = "/var/ballast"
	alert   = "EbbReclaimHolds"
)

// reclaim fills the disk twice. The first time, removing unused images is enough; the
// second time it is not.
func (b *fixture) reclaim() {
	at := need(b.images())
	must(fill(at.HighPercent - 2))
	b.notes.line("  # a pod writes 100 MB onto a disk that is %d %% full", at.HighPercent-2)
	b.apply(fmt.Sprintf(aPod, "writer", appImage, "dd if=/dev/zero of=/written bs=1M count=100 && sleep 1000"))
	b.eventually("the disk to be low", func() error {
		now, err := b.images()
		if err == nil && (now.bigOnes() == at.bigOnes() || now.UsedPercent > now.LowPercent) {
			err = fmt.Errorf("%d %% full, and %d big images", now.UsedPercent, now.bigOnes())
		}
		return err
	})
	now := need(b.images())
	b.notes.ok("ebb removed %d of %d unused images: the disk is %d %% full", at.bigOnes()-now.bigOnes(), at.bigOnes(), now.UsedPercent)
	if now.bigOnes() == 0 {
		fail("all unused images are gone, although fewer would have been enough")
	}
	for _, name := range []string{nextImage, appImage} {
		if !now.has(name) {
			fail("%s is gone", name)
		}
	}
	b.notes.ok("the image of its own next version, which nobody uses yet, is still there")
	b.noPressure()
	b.tooFull(now)
}

// tooFull fills the disk with data that ebb must not remove, until the alert fires.
func (b *fixture) tooFull(now explanation) {
	b.notes.line("  # people write a file that leaves %d %%", 100-now.HighPercent-3)
	// Step by step, because ebb frees space at the same time.
	b.eventually("the disk to stay full", func() error {
		now, err := b.images()
		if err == nil && (now.UsedPercent < now.HighPercent+2 || now.bigOnes() > 0) {
			err = errors.Join(fill(now.HighPercent+3), fmt.Errorf("%d %% full, and %d big images", now.UsedPercent, now.bigOnes()))
		}
		return err
	})
	b.alert(alert, true)
	b.notes.ok("nothing is left to remove, and the alert %s fires", alert)
	must(os.Remove(ballast))
	b.notes.command("rm " + ballast)
	b.alert(alert, false)
	b.notes.ok("and resolves")
	b.noPressure()
	need(b.kubectl("delete", "pod", "writer", "--wait=false"))
}

func (e explanation) bigOnes() int {
	n := 0
	for i := range bigOnes {
		if e.has(big(i)) {
			n++
		}
	}
	return n
}

// noPressure checks that the kubelet never had cause to act.
func (b *fixture) noPressure() {
	text := need(b.kubectl("get", "node", nodeName, `--output=jsonpath={.status.conditions[?(@.type=="DiskPressure")].status}`))
	if text != "False" {
		fail("the node is under disk pressure: %s", text)
	}
	if strings.Contains(need(b.kubectl("get", "pods", "--all-namespaces", "--output=jsonpath={.items[*].status.reason}")), "Evicted") {
		fail("the kubelet has evicted pods")
	}
}

// fill grows the ballast until the disk is used to that percentage, as df counts.
func fill(percent int) error {
	var st unix.Statfs_t
	if err := unix.Statfs("/var", &st); err != nil {
		return fmt.Errorf("fill disk: %w", err)
	}
	f, err := os.OpenFile(ballast, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("fill disk: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		// Relative to the space available to users other than root.
		left := int64(st.Bavail) - int64(st.Blocks)*int64(100-percent)/100
		if left > 0 {
			err = unix.Fallocate(int(f.Fd()), 0, info.Size(), left*st.Bsize)
		}
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("fill disk: %w", err)
	}
	return nil
}
