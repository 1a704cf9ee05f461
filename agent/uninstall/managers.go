package uninstall

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// Managers looks for kube-controller-managers that run as pods. By their arguments, those in on
// collect garbage and those in off do not. It is no error that none can be seen (managed control
// planes, missing rights): that is the usual case.
func Managers(ctx context.Context, c *kube.Client) (on, off []string) {
	type manager struct {
		Metadata struct{ Name string }
		Spec     struct {
			Containers []struct{ Command, Args []string }
		}
		Status struct{ Phase string }
	}
	list, _ := readAll[manager](ctx, c, podType, kube.Selection{Namespace: "kube-system", Labels: "component=kube-controller-manager"})
	for _, p := range list {
		if len(p.Spec.Containers) == 0 || p.Status.Phase != "Running" {
			continue
		}
		name := "kube-system/" + p.Metadata.Name
		if collects, why := collects(slices.Concat(p.Spec.Containers[0].Command, p.Spec.Containers[0].Args)); collects {
			on = append(on, name)
		} else {
			off = append(off, name+" ("+why+")")
		}
	}
	return on, off
}

// collects reads the command line of a kube-controller-manager of any version, and reports whether
// it collects garbage. why is the argument that switches the collector off.
func collects(args []string) (yes bool, why string) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	controllers := flags.String("controllers", "*", "")
	enabled := flags.Bool("enable-garbage-collector", true, "")
	args = slices.Clone(args)
	for i, arg := range args {
		if strings.HasPrefix(arg, "-") {
			args[i] = "--" + strings.TrimLeft(arg, "-")
		}
	}
	if err := flags.Parse(args); err != nil {
		return false, err.Error() // it would not start
	}
	words := strings.Split(*controllers, ",")
	for _, name := range []string{"garbage-collector-controller", "garbagecollector"} { // in new versions and old
		if slices.Contains(words, "-"+name) {
			return false, "--controllers=" + *controllers
		}
		yes = yes || slices.Contains(words, name)
	}
	switch {
	case !*enabled:
		return false, "--enable-garbage-collector=false"
	case !yes && !slices.Contains(words, "*"):
		return false, "--controllers=" + *controllers
	}
	return true, ""
}
