package kubelet

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// flag is one of a command line.
type flag struct{ name, value string }

// parseFlags reads a command line, without the program's name, as the kubelet does,
// and returns the flags that concern ebb. Of others it is unknown whether they take a
// value: what follows and is no flag itself counts as one.
func parseFlags(args []string) (flags []flag, err error) {
	set := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	set.Usage = func() {}
	set.ParseErrorsAllowlist.UnknownFlags = true
	set.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName { // WordSepNormalizeFunc
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	set.String("config", "", "")
	set.String("config-dir", "", "")
	for _, k := range knobs {
		if k.flag != "" {
			set.String(k.flag, "", "")
		}
	}
	err = set.ParseAll(args, func(f *pflag.Flag, value string) error {
		flags = append(flags, flag{f.Name, value})
		return nil
	})
	return flags, err
}

// last returns the value of a flag; the last one counts.
func last(flags []flag, name string) (value string) {
	for _, f := range flags {
		if f.name == name {
			value = f.value
		}
	}
	return value
}

// layFlags puts flags over the settings. Thresholds begin empty with their first flag,
// others add to it (LangleSeparatedMapStringString in component-base).
func (s *Settings) layFlags(flags []flag) error {
	var errs []error
	laid := map[string]bool{}
	for _, f := range flags {
		for _, k := range knobs {
			if k.flag != f.name {
				continue
			}
			to := k.of(s)
			if thresholds, ok := to.(Values[string]); ok && !laid[f.name] {
				clear(thresholds)
			}
			laid[f.name] = true
			if err := to.layText(f.value, "--"+f.name); err != nil {
				errs = append(errs, fmt.Errorf("--%s=%.200q: %w", f.name, f.value, err))
			}
		}
	}
	return errors.Join(errs...)
}
