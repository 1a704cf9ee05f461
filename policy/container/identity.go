package container

// The labels by which the kubelet knows its own again
// (k8s.io/kubelet/pkg/types/labels.go).
const (
	labelPodUID        = "io.kubernetes.pod.uid"
	labelPodNamespace  = "io.kubernetes.pod.namespace"
	labelPodName       = "io.kubernetes.pod.name"
	labelContainerName = "io.kubernetes.container.name"
)

// maxName is the longest name that Kubernetes allows for any object.
const maxName = 253

// Identify reads the kubelet's labels: the pod, and the container's name in
// it (a sandbox has none of its own). What is missing or malformed comes back
// as the zero value, which Decide leaves alone.
//
// Whoever may write to the runtime's socket can write these labels; they name
// an owner, they do not prove one. The names are safe to print, and hold no
// path separator.
//
// The kubelet is less careful: it takes anything the CRI lists, so that a sandbox made by
// hand is of a pod without UID, which is gone. What belongs to nobody still counts as a
// container of its sandbox, which therefore stays. With forged labels, dead containers go
// earlier, never running ones.
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

// validName is wider than any one of Kubernetes' rules for names: a manifest
// may give a static pod whatever UID it likes. It holds what those rules are
// needed for here: not empty, not endless, printable, no path.
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
