package podlogs

import (
	"strings"
	"testing"
)

func FuzzNames(f *testing.F) {
	for _, seed := range []string{entry, "uid", "a_b_c", "web_shop_app-0123.log", "a_b_c-d-e.log", "..", "a_b_../c", "\xff_b_c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if pod, ok := ParseDirectory(name); ok {
			again := pod.UID
			if pod.Name != "" {
				again = pod.Namespace + "_" + pod.Name + "_" + pod.UID
			}
			if again != name || strings.ContainsAny(name, "/\x00 \n") || name == "." || name == ".." {
				t.Errorf("%q is %+v", name, pod)
			}
		}
		if id, ok := parseLink(name); ok && (!strings.HasSuffix(name, "-"+id+".log") || strings.ContainsAny(name, "/\x00 \n")) {
			t.Errorf("%q is a link of %q", name, id)
		}
	})
}

func TestParseLink(t *testing.T) {
	for name, want := range map[string]string{
		"web_shop_app-0123.log":      "0123",
		"web_shop_app-side-0123.log": "0123",
		"web_shop_app.log":           "",
		"web_shop_-0123.log":         "",
		"web_shop_app-.log":          "",
		"web_app-0123.log":           "",
		"web_shop_app-0123":          "",
		".log":                       "",
	} {
		if id, ok := parseLink(name); id != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", name, id, ok)
		}
	}
}
