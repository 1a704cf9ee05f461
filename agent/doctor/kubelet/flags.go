package kubelet

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Flag is one of a command line.
type Flag struct{ Name, Value string }

// takesValue are the flags that are read here. Each takes a value, which can
// stand in the next argument, also if that begins with a dash.
var takesValue = map[string]bool{
	"config": true, "config-dir": true, "root-dir": true,
	"image-gc-high-threshold": true, "image-gc-low-threshold": true, "minimum-image-ttl-duration": true,
	"maximum-dead-containers": true, "maximum-dead-containers-per-container": true, "minimum-container-ttl-duration": true,
	"eviction-hard": true, "eviction-soft": true, "feature-gates": true,
	"container-runtime-endpoint": true, "image-service-endpoint": true,
}

// ParseFlags reads a command line, without the program's name, as pflag does
// with the kubelet's flags. Of a flag that is not known here it cannot be told
// whether it takes a value: what follows and is no flag itself counts as one.
func ParseFlags(args []string) []Flag {
	var flags []Flag
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			break
		}
		name, isFlag := strings.CutPrefix(args[i], "--")
		if !isFlag {
			continue // a value of an unknown flag, or a short one (-v)
		}
		name, value, has := strings.Cut(name, "=")
		name = strings.ReplaceAll(name, "_", "-") // WordSepNormalizeFunc
		if !has && i+1 < len(args) && takesValue[name] {
			i++
			value = args[i]
		}
		flags = append(flags, Flag{name, value})
	}
	return flags
}

// last returns the value of a flag; the last one counts.
func last(flags []Flag, name string) (value string) {
	for _, f := range flags {
		if f.Name == name {
			value = f.Value
		}
	}
	return value
}

// layFlags puts flags over the settings.
func (s *Settings) layFlags(flags []Flag) error {
	var errs []error
	cleared := map[string]bool{} // maps begin empty with their first flag
	for _, f := range flags {
		if len(f.Value) > maxText {
			errs = append(errs, fmt.Errorf("--%s: longer than %d bytes", f.Name, maxText))
			continue
		}
		if err := s.layFlag(f, cleared); err != nil {
			errs = append(errs, fmt.Errorf("--%s=%.200q: %w", f.Name, f.Value, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Settings) layFlag(f Flag, cleared map[string]bool) error {
	from := "--" + f.Name
	switch f.Name {
	case "image-gc-high-threshold":
		return setNumber(&s.ImageGCHighThresholdPercent, f.Value, from)
	case "image-gc-low-threshold":
		return setNumber(&s.ImageGCLowThresholdPercent, f.Value, from)
	case "minimum-image-ttl-duration":
		return setDuration(&s.ImageMinimumGCAge, f.Value, from)
	case "maximum-dead-containers":
		return setNumber(&s.MaximumDeadContainers, f.Value, from)
	case "maximum-dead-containers-per-container":
		return setNumber(&s.MaximumDeadPerContainer, f.Value, from)
	case "minimum-container-ttl-duration":
		return setDuration(&s.MinimumContainerDuration, f.Value, from)
	case "eviction-hard":
		return setThresholds(&s.EvictionHard, f, cleared)
	case "eviction-soft":
		return setThresholds(&s.EvictionSoft, f, cleared)
	case "feature-gates":
		return setGates(s.FeatureGates, f.Value, from)
	case "container-runtime-endpoint":
		s.ContainerRuntimeEndpoint = Value[string]{f.Value, from}
	case "image-service-endpoint":
		s.ImageServiceEndpoint = Value[string]{f.Value, from}
	case "root-dir":
		s.RootDir = Value[string]{f.Value, from}
	}
	return nil
}

func setNumber(out *Value[int], text, from string) error {
	n, err := strconv.ParseInt(text, 0, 32) // as pflag: 0x64 is a number, too
	if err != nil {
		return errors.New("not a whole number")
	}
	*out = Value[int]{int(n), from}
	return nil
}

func setDuration(out *Value[time.Duration], text, from string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("not a duration")
	}
	*out = Value[time.Duration]{d, from}
	return nil
}

// setThresholds reads "signal<quantity,…". The first flag empties the map, others
// add to it (LangleSeparatedMapStringString in component-base).
func setThresholds(out *map[string]Value[string], f Flag, cleared map[string]bool) error {
	if !cleared[f.Name] {
		cleared[f.Name], *out = true, map[string]Value[string]{}
	}
	for pair := range strings.SplitSeq(f.Value, ",") {
		if pair == "" {
			continue
		}
		signal, quantity, ok := strings.Cut(pair, "<")
		if !ok {
			return errors.New(`want "signal<quantity"`)
		}
		if len(*out) < maxEntries {
			(*out)[strings.TrimSpace(signal)] = Value[string]{strings.TrimSpace(quantity), "--" + f.Name}
		}
	}
	return nil
}

func setGates(out map[string]Value[bool], text, from string) error {
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" {
			continue
		}
		gate, value, ok := strings.Cut(pair, "=")
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if !ok || err != nil {
			return errors.New(`want "gate=true" or "gate=false"`)
		}
		if len(out) < maxEntries {
			out[strings.TrimSpace(gate)] = Value[bool]{on, from}
		}
	}
	return nil
}
