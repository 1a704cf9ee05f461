package orphans

import (
	"slices"
	"strings"

	"github.com/ebb-agent/ebb/policy/gc"
)

// own are the finalizers of Kubernetes itself that have no domain.
var own = []string{gc.OrphanFinalizer, gc.ForegroundFinalizer, "kubernetes"}

// hosted are domains of controllers that run beside a hosted control plane and serve no type
// under that domain in the cluster. GKE's load balancer controller sets gke.networking.io/l4-ilb-v1
// and the like on Services.
var hosted = map[string]string{"networking.io": "GKE"}

// attacher is the prefix of the finalizer that external-attacher sets on PersistentVolumes
// and VolumeAttachments. The driver's name follows, as attacherName writes it. If the
// finalizer is removed by hand while a volume is attached, the volume can be attached twice.
const attacher = "external-attacher/"

// attacherName returns a CSI driver's name as external-attacher writes it in a finalizer:
// each character except ASCII letters and digits is a dash, and a last dash is followed by an
// X.
func attacherName(driver string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, driver)
	if strings.HasSuffix(name, "-") {
		name += "X"
	}
	return name
}

// server returns the controller that removes a finalizer of an object, as far as the cluster shows
// it, or "". If by is "", gone reports whether the finalizer has a domain, on an object of
// Kubernetes' own types, and no type of that domain is served: its controller was probably
// uninstalled. If gone is false, too, the controller cannot be determined. A finalizer without a
// domain can belong to any controller. On a custom resource, the framework that its controller is
// built with may set it under the framework's domain.
func (l *Inspection) server(o gc.Coordinates, finalizer string) (by string, gone bool) {
	if slices.Contains(own, finalizer) {
		return "Kubernetes", false
	}
	name, _, _ := strings.Cut(finalizer, "/")
	domain := domainOf(name)
	if builtIn(domain) {
		return "Kubernetes or one of its projects", false
	}
	group := gc.GroupOf(o.APIVersion)
	custom := strings.Contains(group, ".") && !builtIn(domainOf(group))
	switch {
	case domain != "":
		if by := l.served(name, domain); by != "" {
			return by, false
		}
		return hosted[domain], hosted[domain] == "" && !custom
	case strings.HasPrefix(finalizer, attacher):
		return l.drivers[strings.TrimPrefix(finalizer, attacher)], false
	case custom:
		return group, false
	}
	return "", false
}

// served returns a group with a domain that is served here: the one with this name, else the
// first one, else "". A controller's finalizers are rarely called exactly as its types are,
// so only the last two labels are compared.
func (l *Inspection) served(name, domain string) (by string) {
	for group := range l.groups {
		if domainOf(group) != domain {
			continue
		}
		switch {
		case strings.EqualFold(group, name):
			return group
		case by == "" || group < by:
			by = group
		}
	}
	return by
}

// builtIn reports whether a domain is Kubernetes' own, whose types are always served.
func builtIn(domain string) bool { return domain == "kubernetes.io" || domain == "k8s.io" }

// domainOf returns the last two labels of a name in lower case, or "" if it has fewer.
func domainOf(name string) string {
	labels := strings.Split(strings.ToLower(name), ".")
	if len(labels) < 2 || slices.Contains(labels[len(labels)-2:], "") {
		return ""
	}
	return strings.Join(labels[len(labels)-2:], ".")
}
