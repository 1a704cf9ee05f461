package uninstall

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// managers looks for kube-controller-managers that run as pods, and says which of them
// were told to collect garbage and which not. That they cannot be seen (managed control
// planes, missing rights) is no error: it is the usual case.
func managers(ctx context.Context, a *api) (on, off []string) {
	var list struct {
		Items []struct {
			Metadata metadata
			Spec     struct {
				Containers []struct{ Command, Args []string }
			}
			Status struct{ Phase string }
		}
	}
	query := url.Values{"labelSelector": {"component=kube-controller-manager"}, "limit": {"20"}}
	err := a.do(ctx, request{method: http.MethodGet, path: "/api/v1/namespaces/kube-system/pods", query: query, once: true}, &list)
	if err != nil {
		return nil, nil
	}
	for _, p := range list.Items {
		if len(p.Spec.Containers) == 0 || p.Status.Phase != "Running" {
			continue
		}
		c := p.Spec.Containers[0]
		collects, why := collects(slices.Concat(c.Command, c.Args))
		name := "kube-system/" + clean(p.Metadata.Name)
		if collects {
			on = append(on, name)
		} else {
			off = append(off, name+" ("+clean(why)+")")
		}
	}
	return on, off
}

// collectorNames are what the controller is called, in new versions and old.
var collectorNames = []string{"garbage-collector-controller", "garbagecollector"}

// collects reads a kube-controller-manager's command line; of a flag that is given twice
// the last one counts. why is the argument that switches it off.
func collects(args []string) (yes bool, why string) {
	controllers, enabled := "*", true
	for i := 0; i < len(args); i++ {
		name, value, ok := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if !strings.HasPrefix(args[i], "-") {
			continue
		}
		switch name {
		case "controllers":
			if !ok && i+1 < len(args) {
				i++
				value = args[i]
			}
			controllers, why = value, "--controllers="+value
		case "enable-garbage-collector":
			enabled = !ok || value != "false" && value != "0" && value != "f" && value != "F" && value != "False" && value != "FALSE"
		}
	}
	if !enabled {
		return false, "--enable-garbage-collector=false"
	}
	words := strings.Split(controllers, ",")
	for _, name := range collectorNames {
		if slices.Contains(words, "-"+name) {
			return false, why
		}
		if slices.Contains(words, name) {
			return true, ""
		}
	}
	if slices.Contains(words, "*") {
		return true, ""
	}
	return false, why
}
