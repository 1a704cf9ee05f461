package kubelet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxDropIns bounds how many files are read below --config-dir, and
	// maxDepth how deep.
	maxDropIns = 1000
	maxDepth   = 16
	maxListed  = 10 * maxDropIns // others than *.conf may be there, too
	dropInEnd  = ".conf"
)

// ErrWithin: the kubelet is part of another program, whose command line and
// files do not tell.
var ErrWithin = errors.New("the kubelet is part of another program")

// Settings reads the process's command line and the files it names. What is
// wrong with one part is in the error; the rest holds as far as it goes, and is
// not to be trusted as a whole.
func (p *Process) Settings() (Settings, error) {
	s := Defaults()
	if p.Within != "" {
		return s, fmt.Errorf("%w: %s", ErrWithin, p.Within)
	}
	flags := p.Flags()
	var errs []error
	if p.Truncated {
		errs = append(errs, fmt.Errorf("command line: longer than %d bytes", maxCommandLine))
	}
	if file := last(flags, "config"); file != "" {
		data, err := p.ReadFile(file)
		if err == nil {
			err = s.layFile(data, clean(file))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--config %s: %w", clean(file), err))
		}
	}
	if dir := last(flags, "config-dir"); dir != "" {
		if err := p.layDropIns(&s, dir); err != nil {
			errs = append(errs, fmt.Errorf("--config-dir %s: %w", clean(dir), err))
		}
	}
	if err := s.layFlags(flags); err != nil {
		errs = append(errs, err)
	}
	s.FlagsKnown = true
	return s, errors.Join(errs...)
}

// layDropIns reads a directory as filepath.WalkDir goes through it: in lexical
// order, directories in their place among files.
func (p *Process) layDropIns(s *Settings, dir string) error {
	var files []string
	if err := p.walk(dir, maxDepth, &files); err != nil {
		return err
	}
	for _, file := range files {
		data, err := p.ReadFile(file)
		if err == nil {
			err = s.layDropIn(data, clean(file))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", clean(file), err)
		}
	}
	return nil
}

func (p *Process) walk(dir string, depth int, files *[]string) error {
	if depth == 0 {
		return fmt.Errorf("deeper than %d directories", maxDepth)
	}
	f, err := p.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(maxListed)
	f.Close()
	switch {
	case err != nil && err != io.EOF:
		return err
	case len(entries) == maxListed:
		return fmt.Errorf("%d files or more", maxListed)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir():
			if err := p.walk(name, depth-1, files); err != nil {
				return err
			}
		case path.Ext(name) != dropInEnd:
		case len(*files) >= maxDropIns:
			return fmt.Errorf("more than %d files", maxDropIns)
		default:
			*files = append(*files, name)
		}
	}
	return nil
}

// FromFile reads a configuration file that a person has named, as if a kubelet
// had been started with it alone.
func FromFile(name string) (Settings, error) {
	s := Defaults()
	data, err := ReadFile(name)
	if err != nil {
		return s, fmt.Errorf("read the kubelet's configuration: %w", err)
	}
	if err := s.layFile(data, clean(name)); err != nil {
		return s, fmt.Errorf("the kubelet's configuration %s: %w", clean(name), err)
	}
	return s, nil
}

// TakeFlags takes over what only flags tell, from a process that was found
// beside a configuration that does not have it.
func (s *Settings) TakeFlags(p *Process) {
	if p.Within != "" || p.Truncated {
		return
	}
	f := Defaults()
	if f.layFlags(p.Flags()) != nil {
		return
	}
	s.RootDir, s.MaximumDeadContainers = f.RootDir, f.MaximumDeadContainers
	s.MaximumDeadPerContainer, s.MinimumContainerDuration = f.MaximumDeadPerContainer, f.MinimumContainerDuration
	s.FlagsKnown = true
}

// clean keeps a name on one line, and short.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' || (r >= 0x80 && r < 0xa0) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if r := []rune(s); len(r) > 200 {
		return string(r[:200]) + "…"
	}
	return s
}
