package kubelet

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// flag is a flag of a command line.
type flag struct{ name, value string }

// parseFlags reads a command line, without the program's name, as the kubelet does. It returns the
// flags that concern ebb. It does not know whether other flags take a value. An argument after such
// a flag that is no flag itself is treated as its value.
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

// last returns the last value of a flag, which is the one that applies.
func last(flags []flag, name string) (value string) {
	for _, f := range flags {
		if f.name == name {
			value = f.value
		}
	}
	return value
}

// layFlags applies flags on top of the settings. The first --eviction-hard or --eviction-soft
// removes those thresholds from files; further ones add to it (LangleSeparatedMapStringString in
// component-base).
func (s *Settings) layFlags(flags []flag) error {
	var errs []error
	laid := map[string]bool{}
	for _, f := range flags {
		for _, k := range knobs {
			if k.flag != f.name {
				continue
			}
			to := k.of(s)
			if thresholds, ok := to.(Thresholds); ok && !laid[f.name] {
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
