package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// ballast is what people put onto disks, which nobody may remove.
	ballast = "/var/ballast"
	alert   = "EbbDiskAboveLine"
)

// reclaim fills the disk twice: what is unused suffices the first time, and the
// second time it does not.
func (b *bed) reclaim() error {
	at, err := b.images()
	if err != nil {
		return err
	}
	if err := fill(at.HighPercent - 2); err != nil {
		return err
	}
	b.notes.line("  # a pod writes 100 MB onto a disk that is %d %% full", at.HighPercent-2)
	if err := b.apply(fmt.Sprintf(aPod, "writer", appImage, "dd if=/dev/zero of=/written bs=1M count=100 && sleep 1000")); err != nil {
		return err
	}
	err = b.eventually("the disk is low", func() error {
		now, err := b.images()
		if err == nil && (now.bigOnes() == at.bigOnes() || now.UsedPercent > now.LowPercent) {
			err = notYet("%d %% full, and %d big images", now.UsedPercent, now.bigOnes())
		}
		return err
	})
	if err != nil {
		return err
	}
	now, err := b.images()
	if err != nil {
		return err
	}
	b.notes.ok("ebb removed %d of %d unused images: the disk is %d %% full", at.bigOnes()-now.bigOnes(), at.bigOnes(), now.UsedPercent)
	if now.bigOnes() == 0 {
		return errors.New("all unused images are gone, although fewer would have been enough")
	}
	for _, name := range []string{nextImage, appImage} {
		if !now.has(name) {
			return fmt.Errorf("%s is gone", name)
		}
	}
	b.notes.ok("the image of its own next version, which nobody uses yet, is still there")
	if err := b.noPressure(); err != nil {
		return err
	}
	return b.tooFull(now)
}

// tooFull fills the disk with what ebb may not remove, until the alert fires.
func (b *bed) tooFull(now explanation) error {
	b.notes.line("  # people write a file that leaves %d %%", 100-now.HighPercent-3)
	// Step by step: what ebb removes meanwhile makes room.
	err := b.eventually("the disk stays full", func() error {
		now, err := b.images()
		if err == nil && now.UsedPercent < now.HighPercent+2 {
			err = errors.Join(fill(now.HighPercent+3), notYet("%d %% full", now.UsedPercent))
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := b.alert(alert, true); err != nil {
		return err
	}
	b.notes.ok("nothing is left to remove, and the alert %s fires", alert)
	if err := os.Remove(ballast); err != nil {
		return fmt.Errorf("remove ballast: %w", err)
	}
	b.notes.command("rm " + ballast)
	if err := b.alert(alert, false); err != nil {
		return err
	}
	b.notes.ok("and resolves")
	if err := b.noPressure(); err != nil {
		return err
	}
	_, err = b.kubectl("delete", "pod", "writer", "--wait=false")
	return err
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

// noPressure tells whether the kubelet never had cause to act.
func (b *bed) noPressure() error {
	text, err := b.kubectl("get", "node", nodeName, `--output=jsonpath={.status.conditions[?(@.type=="DiskPressure")].status}`)
	if err != nil {
		return err
	}
	if text != "False" {
		return fmt.Errorf("the node is under disk pressure: %s", text)
	}
	text, err = b.kubectl("get", "pods", "--all-namespaces", "--output=jsonpath={.items[*].status.reason}")
	if err == nil && strings.Contains(text, "Evicted") {
		err = errors.New("the kubelet has evicted pods")
	}
	return err
}

// fill grows the ballast until the disk is used to that percentage, as df has it.
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
		// Of what is there for all but root.
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
