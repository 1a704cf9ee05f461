package orphans

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Target returns an object as one argument of kubectl, which begins with the type:
// "deployments.apps/web". No name can contain a slash.
func Target(o gc.Coordinates) string {
	if group := gc.GroupOf(o.APIVersion); group != "" {
		return o.Resource + "." + group + "/" + o.Name
	}
	return o.Resource + "/" + o.Name
}

func kubectl(verb string, o gc.Coordinates, more ...string) []string {
	args := []string{verb, Target(o)}
	if o.Namespace != "" {
		args = append(args, "--namespace="+o.Namespace)
	}
	return append(args, more...)
}

// get returns the kubectl arguments that show an object; nil if its type cannot be named.
func get(o gc.Coordinates) []string {
	if o.Resource == "" {
		return nil
	}
	return kubectl("get", o, "--output=yaml")
}

// patch returns the kubectl arguments for a JSON patch with the operation op. The patch fails
// unless the object still has the UID that was judged, and the path test still has this
// value.
func patch(o gc.Coordinates, op, test, value string) []string {
	ops := make([]string, 0, 3)
	if o.UID != "" {
		ops = append(ops, `{"op":"test","path":"/metadata/uid","value":`+quote(o.UID)+`}`)
	}
	ops = append(ops, `{"op":"test","path":"`+test+`","value":`+quote(value)+`}`, op)
	return kubectl("patch", o, "--type=json", "--patch=["+strings.Join(ops, ",")+"]")
}

func remove(path string) string { return `{"op":"remove","path":"` + path + `"}` }

func removeReference(o gc.Coordinates, at int, uid string) []string {
	path := "/metadata/ownerReferences/" + strconv.Itoa(at)
	return patch(o, remove(path), path+"/uid", uid)
}

func replaceVersion(o gc.Coordinates, at int, uid, version string) []string {
	path := "/metadata/ownerReferences/" + strconv.Itoa(at)
	return patch(o, `{"op":"replace","path":"`+path+`/apiVersion","value":`+quote(version)+`}`, path+"/uid", uid)
}

func removeFinalizer(o gc.Coordinates, at int, name string) []string {
	path := "/metadata/finalizers/" + strconv.Itoa(at)
	return patch(o, remove(path), path, name)
}

// quote returns a string in JSON, in printable ASCII characters.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r >= ' ' && r < 0x7f:
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
