package uninstall

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// Managers looks for kube-controller-managers that run as pods. By their arguments, those in on
// collect garbage and those in off do not. Those in atRisk, which are in off as well, run the storage
// version migrator in a cluster that serves its types: a migration makes release 1.36 panic while its
// garbage collector is off. It is no error that none can be seen (managed control planes, missing
// rights): that is the usual case.
func Managers(ctx context.Context, c *kube.Client) (on, off, atRisk []string) {
	list, _ := readAll[corev1.Pod](ctx, c, podType, kube.Selection{Namespace: "kube-system", Labels: "component=kube-controller-manager"})
	for _, p := range list {
		if len(p.Spec.Containers) == 0 || p.Status.Phase != corev1.PodRunning {
			continue
		}
		name := "kube-system/" + p.Name
		args := slices.Concat(p.Spec.Containers[0].Command, p.Spec.Containers[0].Args)
		switch collects, why := collects(args); {
		case collects:
			on = append(on, name)
		case migrates(args):
			atRisk = append(atRisk, name)
			fallthrough
		default:
			off = append(off, name+" ("+why+")")
		}
	}
	if len(atRisk) > 0 && c.Send(ctx, http.MethodGet, "/apis/storagemigration.k8s.io", nil, nil, new(json.RawMessage)) != nil {
		atRisk = nil // not served, or not known
	}
	return on, off, atRisk
}

// collects reports whether a kube-controller-manager of any version collects garbage, by its command
// line. why is the argument that switches the collector off.
func collects(args []string) (yes bool, why string) {
	controllers, enabled, err := parseManager(args)
	switch {
	case err != nil:
		return false, err.Error() // it would not start
	case !runs(controllers, "garbage-collector-controller", "garbagecollector"): // in new versions and old
		return false, "--controllers=" + controllers
	case !enabled:
		return false, "--enable-garbage-collector=false"
	}
	return true, ""
}

// migrates reports whether a kube-controller-manager runs the storage version migrator, if the cluster serves
// its types.
func migrates(args []string) bool {
	controllers, _, err := parseManager(args)
	return err == nil && runs(controllers, "storage-version-migrator-controller")
}

// parseManager reads the command line of a kube-controller-manager of any version. enabled is its
// flag --enable-garbage-collector.
func parseManager(args []string) (controllers string, enabled bool, err error) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.StringVar(&controllers, "controllers", "*", "")
	flags.BoolVar(&enabled, "enable-garbage-collector", true, "")
	args = slices.Clone(args)
	for i, arg := range args {
		if strings.HasPrefix(arg, "-") {
			args[i] = "--" + strings.TrimLeft(arg, "-")
		}
	}
	return controllers, enabled, flags.Parse(args)
}

// runs reports whether the flag --controllers switches on a controller, which has several names in different
// versions.
func runs(controllers string, names ...string) bool {
	words := strings.Split(controllers, ",")
	if slices.ContainsFunc(names, func(n string) bool { return slices.Contains(words, "-"+n) }) {
		return false
	}
	return slices.Contains(words, "*") || slices.ContainsFunc(names, func(n string) bool { return slices.Contains(words, n) })
}
