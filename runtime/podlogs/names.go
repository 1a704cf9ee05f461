package podlogs

import "strings"

// Pod is the pod whose logs a directory holds. Namespace and Name are "" where
// the directory is named after the UID alone, as before Kubernetes 1.14.
type Pod struct {
	Namespace, Name, UID string
}

// maxName is NAME_MAX; the kernel has no longer names.
const maxName = 255

// ParseDirectory reads a name as the kubelet writes it, NAMESPACE_NAME_UID or
// UID. Kubernetes allows '_' in none of the three. False if it is no such name.
func ParseDirectory(name string) (Pod, bool) {
	parts := strings.Split(name, "_")
	var pod Pod
	switch len(parts) {
	case 1:
		pod = Pod{UID: parts[0]}
	case 3:
		pod = Pod{parts[0], parts[1], parts[2]}
		if !label(pod.Namespace) || !label(pod.Name) {
			return Pod{}, false
		}
	default:
		return Pod{}, false
	}
	return pod, label(pod.UID) && len(name) <= maxName
}

// label reports whether s can be the name, namespace or UID of a pod. The author of a static pod
// can choose any string as UID; in practice a UID is hexadecimal.
func label(s string) bool {
	if s == "" || s[0] == '.' || s[0] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.':
		default:
			return false
		}
	}
	return true
}

// parseLink reads the name of a link, POD_NAMESPACE_CONTAINER-ID.log, and returns
// the container's id. False if it is no such name.
func parseLink(name string) (id string, ok bool) {
	rest, ok := strings.CutSuffix(name, ".log")
	if !ok || len(name) > maxName {
		return "", false
	}
	parts := strings.Split(rest, "_")
	if len(parts) != 3 || !label(parts[0]) || !label(parts[1]) {
		return "", false
	}
	dash := strings.LastIndexByte(parts[2], '-')
	if dash <= 0 || !label(parts[2][:dash]) {
		return "", false
	}
	id = parts[2][dash+1:]
	return id, id != "" && label(id)
}
