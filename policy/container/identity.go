package container

// The labels by which the kubelet recognizes its own containers and sandboxes
// (k8s.io/kubelet/pkg/types/labels.go).
const (
	labelPodUID        = "io.kubernetes.pod.uid"
	labelPodNamespace  = "io.kubernetes.pod.namespace"
	labelPodName       = "io.kubernetes.pod.name"
	labelContainerName = "io.kubernetes.container.name"
)

// maxName is the longest name that Kubernetes allows for any object.
const maxName = 253

// Identify reads the kubelet's labels: the pod, and the container's name in it ("" for a
// sandbox). For missing or malformed labels it returns zero values; Decide leaves such
// containers and sandboxes alone.
//
// Every client of the runtime's socket can write these labels: they name an owner, but do not
// prove it. The returned names are safe to print and contain no path separator.
//
// The kubelet is less careful and accepts everything that the CRI lists. To it, a sandbox
// that was created by hand belongs to a pod without UID, which is gone. A container without
// these labels still counts as a container of its sandbox, so that sandbox stays. Forged
// labels can cause the early removal of dead containers, but never of running ones.
func Identify(labels map[string]string) (pod PodID, container string) {
	pod = PodID{
		UID:       labels[labelPodUID],
		Namespace: labels[labelPodNamespace],
		Name:      labels[labelPodName],
	}
	if !pod.valid() {
		return PodID{}, ""
	}
	if container = labels[labelContainerName]; !validName(container) {
		container = ""
	}
	return pod, container
}

func (p PodID) valid() bool {
	return validName(p.UID) && validName(p.Namespace) && validName(p.Name)
}

func (p PodID) String() string { return p.Namespace + "/" + p.Name }

// validName reports whether s is safe as a name. It allows more than any of Kubernetes' rules
// for names, because a manifest may give a static pod any UID. It ensures what matters here:
// not empty, at most maxName bytes, printable, not a path.
func validName(s string) bool {
	if s == "" || len(s) > maxName || s == "." || s == ".." {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '-', c == '.', c == '_', c == ':':
		default:
			return false
		}
	}
	return true
}
