package watermark

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/runtime/fs"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// errMoved is returned in two cases: the mounts or a project quota changed and no survey has
// followed yet, or one has and the filesystem is no longer watched.
var errMoved = errors.New("another filesystem is there now")

// survey finds the filesystems that the directories are on, follows them as they move, and reads
// them.
type survey struct {
	disk        Disk
	boot        func() time.Duration // CLOCK_BOOTTIME
	outside     func(f func())       // see [Options]
	log         *slog.Logger
	directories []directory   // in the order of Names
	filesystems []*Filesystem // of the directories; replaced as a whole, so that it can be ranged over
	finds       int           // how often the directories were looked for
}

// place takes over the directories that the runtime reports.
func (s *survey) place(roots inventory.Roots) {
	for name, path := range map[string]string{Images: roots.Images, Content: roots.Content, Containers: roots.Containers} {
		if d := s.directory(name); d.path != path {
			d.path, d.at = path, fs.Identity{}
		}
	}
}

func (s *survey) directory(name string) *directory { return &s.directories[slices.Index(Names, name)] }

// named returns the filesystem of a directory, or an error with the reason why there is none.
func (s *survey) named(name string) (*Filesystem, error) {
	d := s.directory(name)
	if d.on == nil {
		return nil, fmt.Errorf("read the filesystem of %s: %w", d.path, d.err)
	}
	return d.on, nil
}

// watches reports whether a filesystem is still watched.
func (s *survey) watches(f *Filesystem) bool { return slices.Contains(s.filesystems, f) }

// numbered returns the watched filesystem with that device number, not one of a project; nil if
// there is none.
func (s *survey) numbered(dev uint64) *Filesystem {
	for _, f := range s.filesystems {
		if f.Dev == dev && !f.Project.Limited {
			return f
		}
	}
	return nil
}

// found is where a directory is, and its filesystem.
type found struct {
	at             fs.Identity // zero: not there
	read           Reading
	atErr, readErr error
}

// find looks for the directories. latest is false if another call has begun since.
func (s *survey) find() (places []found, latest bool) {
	s.finds++
	call := s.finds
	places = make([]found, len(s.directories))
	paths := make([]string, len(places))
	for i, d := range s.directories {
		paths[i] = d.path
	}
	s.outside(func() {
		for i, path := range paths {
			p := &places[i]
			if path == "" {
				continue
			}
			if p.at, p.atErr = s.disk.Identify(path); p.at != (fs.Identity{}) {
				p.read, p.readErr = s.stat(path)
			}
		}
	})
	return places, call == s.finds
}

// follow checks where the directories are now. If any has moved, it finds their filesystems again;
// gone are the filesystems that are no longer watched.
func (s *survey) follow() (gone []*Filesystem, moved bool) {
	places, latest := s.find()
	if !latest {
		return nil, false
	}
	stays := make(map[*Filesystem]bool)
	for i := range s.directories {
		d, now := &s.directories[i], places[i]
		s.noteAbsence(d, now.atErr)
		switch {
		case now.at != d.at || now.at == (fs.Identity{}) && d.on != nil:
			moved, d.at, d.on = true, now.at, nil
		case d.on != nil:
			stays[d.on] = true
		}
	}
	if moved {
		gone = s.regroup(stays, places)
	}
	return gone, moved
}

// noteAbsence notes why a directory is not there, and logs a new reason.
func (s *survey) noteAbsence(d *directory, err error) {
	if err != nil && (d.err == nil || d.err.Error() != err.Error()) {
		level := slog.LevelWarn
		if errors.Is(err, iofs.ErrNotExist) {
			level = slog.LevelDebug // a node without a kubelet, for one
		}
		s.log.Log(context.Background(), level, "a directory does not exist; it is watched once it does", "filesystem", d.name, "error", err)
	}
	d.err = err
}

// regroup finds the filesystems of the directories again. One that stays keeps its threshold.
func (s *survey) regroup(stays map[*Filesystem]bool, places []found) (gone []*Filesystem) {
	known, before := make(map[identity]*Filesystem), s.filesystems
	for _, f := range before {
		if stays[f] {
			known[f.identity()] = f
		}
	}
	s.filesystems = nil
	for i := range s.directories {
		d, r := &s.directories[i], places[i].read
		if d.at == (fs.Identity{}) {
			continue
		}
		if err := places[i].readErr; err != nil {
			d.at, d.on, d.err = fs.Identity{}, nil, err // it vanished at this moment
			continue
		}
		f := known[r.identity()]
		if f == nil {
			f = &Filesystem{}
			known[r.identity()] = f
		}
		if !s.watches(f) {
			f.Names = nil
			s.filesystems = append(s.filesystems, f)
		}
		f.add(d, r)
	}
	return slices.DeleteFunc(slices.Clone(before), s.watches)
}

func (s *survey) stat(path string) (Reading, error) {
	d, info, err := s.disk.Stat(path)
	if err != nil {
		return Reading{}, fmt.Errorf("read the filesystem of %s: %w", path, err)
	}
	return Reading{Disk: d, Info: info}, nil
}

// read reads a watched filesystem, and no other. It returns errMoved if another filesystem was just
// mounted over its path, or a project quota began or ended there.
func (s *survey) read(f *Filesystem) (Reading, error) {
	if !s.watches(f) {
		return Reading{}, fmt.Errorf("read the filesystem of %s: %w", f.Path, errMoved)
	}
	at, path := s.boot(), f.Path
	var r Reading
	var err error
	if s.outside(func() { r, err = s.stat(path) }); !s.watches(f) || f.Path != path {
		return r, fmt.Errorf("read the filesystem of %s: %w", path, errMoved)
	}
	if err == nil && r.identity() != f.identity() {
		for i := range s.directories { // the next survey checks them again
			if d := &s.directories[i]; d.on == f {
				d.at = fs.Identity{}
			}
		}
		return r, fmt.Errorf("read the filesystem of %s: %w", f.Path, errMoved)
	}
	if err == nil {
		f.filling.add(at, r.Disk)
		f.past.add(at, r.Disk)
	}
	return r, err
}
