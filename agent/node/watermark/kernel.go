package watermark

import (
	"errors"
	"log/slog"
	"strings"

	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fs"
)

// kernelWatermarks sets the high thresholds in the kernel programs.
type kernelWatermarks struct {
	probes     Probes // nil: there are none
	attach     func() // attaches programs whose module was loaded since
	conditions *condition.Set
	log        *slog.Logger
}

// catchUp attaches the programs for a filesystem: its module may have been loaded with the mount
// that was just read. The filesystem may be gone when it returns.
func (s *kernelWatermarks) catchUp(f *Filesystem) {
	if s.probes != nil && !f.Project.Limited && !s.probes.CanWatch(f.Type) {
		s.attach()
	}
}

// arm sets the watermark of a filesystem as it was last read, if the kernel can watch it. news is
// true if the kernel began or ceased to watch it, or at the first call. Then arm logs it.
func (s *kernelWatermarks) arm(f *Filesystem) (news bool) {
	was := f.Kernel
	f.Kernel = s.set(f)
	if news = !f.sourceLogged || f.Kernel != was; news {
		f.sourceLogged = true
		s.logSource(f)
	}
	return news
}

// set sets a watermark, and reports whether that was possible. The kernel's counters are of the
// whole filesystem, so they show nothing about a project quota.
func (s *kernelWatermarks) set(f *Filesystem) bool {
	if s.probes == nil || f.Project.Limited || !s.probes.CanWatch(f.Type) {
		return false
	}
	if err := s.probes.SetWatermark(f.Dev, f.Type, f.kernelWatermark()); err != nil {
		s.conditions.Begin(f.kernelTopic(), slog.LevelWarn, "the kernel watermark cannot be set", "path", f.Path, "error", err)
		return false
	}
	s.conditions.End(f.kernelTopic(), "the kernel watermark can be set again")
	return true
}

// clear removes the watermark of a filesystem that is no longer watched: the next superblock can
// get the same device number.
func (s *kernelWatermarks) clear(dev uint64) {
	if s.probes == nil {
		return
	}
	if err := s.probes.ClearWatermark(dev); err != nil && !errors.Is(err, bpf.ErrNotAttached) {
		s.log.Debug("clear the threshold of a former filesystem", "error", err)
	}
}

// counted returns the disk as the kernel programs count it, where they know more than statfs does:
// on btrfs, what is written but not committed.
func (s *kernelWatermarks) counted(r Reading) image.Disk {
	d := r.Disk
	if s.probes == nil {
		return d
	}
	free, ok, err := s.probes.Counted(r.Dev)
	if err != nil {
		s.log.Debug("read the kernel's figure", "error", err)
	}
	if ok {
		d.AvailableBytes = min(d.AvailableBytes, free*r.BlockSize)
	}
	return d
}

// givenBack returns how many bytes were ever freed on a filesystem; ok is false where the kernel
// does not count them.
func (s *kernelWatermarks) givenBack(r Reading) (bytes uint64, ok bool) {
	if s.probes == nil {
		return 0, false
	}
	blocks, ok, _ := s.probes.GivenBack(r.Dev) // an error only costs the wait
	return blocks * r.BlockSize, ok
}

func (s *kernelWatermarks) logSource(f *Filesystem) {
	log := s.log.With("filesystem", strings.Join(f.Names, ","), "path", f.Path, "type", f.Type)
	switch {
	case f.Kernel:
		log.Info("the kernel watches a filesystem", "reason", "watermark set")
	case f.Project.Limited:
		log.Warn("a project quota applies here, which the kernel watermark does not cover; reading it every "+PollInterval.String()+" or sooner",
			"project", f.Project.ID, "reason", limitReason(f.Project), "way_out", "take the limit away, or use a filesystem of its own in place of a quota")
	case f.HoldsImages():
		log.Warn("the kernel cannot watch this filesystem; reading it every "+PollInterval.String(), "reason", "no program for it")
	default:
		log.Info("the kernel cannot watch this filesystem; it is read periodically", "reason", "no program for it")
	}
}

func limitReason(p fs.Project) string {
	if p.Unsure {
		return "a project that may have a quota; to ask takes Linux 5.14 and CAP_SYS_ADMIN"
	}
	return "project quota"
}
