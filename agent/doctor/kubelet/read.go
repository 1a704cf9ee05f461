package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// ErrWithin means that the kubelet is part of another program, whose command line and files do not
// have its settings.
var ErrWithin = errors.New("the kubelet is part of another program")

// Settings reads the process's command line and the files that it names, and sets Changed. If a
// part is wrong, the error says so. The other parts are then still returned, but the settings as a
// whole cannot be relied upon.
func (p *Process) Settings() (Settings, error) {
	s := Defaults()
	if p.Within != "" {
		return s, fmt.Errorf("%w: %s", ErrWithin, p.Within)
	}
	started, startErr := p.Started()
	p.Changed = nil
	note := func(name string, changed time.Time) {
		// If the start is unknown, no file is reported. The start is known to within a second.
		if startErr == nil && changed.After(started.Add(time.Second)) {
			p.Changed = append(p.Changed, clean(name))
		}
	}
	lay := func(name string, over func([]byte, string) error) error {
		data, changed, err := readConfiguration(p.Open(name, readOnly))
		if err != nil {
			return err
		}
		note(name, changed)
		return over(data, clean(name))
	}
	flags, err := p.flags()
	errs := []error{err}
	if file := last(flags, "config"); file != "" {
		if err := lay(file, s.layFile); err != nil {
			errs = append(errs, fmt.Errorf("--config %s: %w", clean(file), err))
		}
	}
	if dir := last(flags, "config-dir"); dir != "" {
		files, err := p.dropIns(dir)
		for i := 0; err == nil && i < len(files); i++ {
			if err = lay(files[i], s.layDropIn); err != nil {
				err = fmt.Errorf("%s: %w", clean(files[i]), err)
			}
		}
		// Adding or removing a file changes the directory.
		if info, infoErr := fs.Stat(tree{p}, dir); infoErr == nil {
			note(dir, info.ModTime())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--config-dir %s: %w", clean(dir), err))
		}
	}
	s.FlagsKnown = true
	return s, errors.Join(append(errs, s.layFlags(flags))...)
}
