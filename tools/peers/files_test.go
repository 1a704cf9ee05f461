package peers

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

func TestConfigComplete(t *testing.T) {
	for _, tc := range []struct {
		name string
		give Config
		want string // in the error, or "" for none
	}{
		{"zero", Config{}, ""},
		{"name", Config{Name: "../x"}, "name"},
		{"relative base", Config{Base: "x"}, "base"},
		{"base with a comma", Config{Base: "/tmp/a,b"}, "base"},
		{"base too long", Config{Base: "/" + strings.Repeat("x", 100)}, "socket path"},
		{"all at once", Config{Name: "../x", Base: "x"}, "name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := tc.give.complete()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("complete: %v, want %q", err, tc.want)
			}
			if err == nil && (c.Name == "" || c.Base == "" || c.Log == nil) {
				t.Errorf("defaults are missing: %+v", c)
			}
		})
	}
}

func TestOverlay(t *testing.T) {
	base := map[string]any{"a": 1, "m": map[string]any{"x": 1, "y": 2}, "l": []string{"p"}}
	for _, tc := range []struct {
		name      string
		top, want map[string]any
	}{
		{"nothing", nil, base},
		{"new", map[string]any{"b": 2}, map[string]any{"a": 1, "b": 2, "m": base["m"], "l": base["l"]}},
		{"into a map", map[string]any{"m": map[string]any{"y": 3}}, map[string]any{"a": 1, "m": map[string]any{"x": 1, "y": 3}, "l": base["l"]}},
		{"list as a whole", map[string]any{"l": []string{}}, map[string]any{"a": 1, "m": base["m"], "l": []string{}}},
		{"removed", map[string]any{"a": nil, "m": map[string]any{"x": nil}}, map[string]any{"m": map[string]any{"y": 2}, "l": base["l"]}},
		{"map for a number", map[string]any{"a": map[string]any{"z": 1}}, map[string]any{"a": map[string]any{"z": 1}, "m": base["m"], "l": base["l"]}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := maps.Clone(base)
			if got := overlay(base, tc.top); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if !reflect.DeepEqual(base, before) {
				t.Errorf("base was changed: %v", base)
			}
		})
	}
}

func TestWriteKubeconfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := writeKubeconfig(path, "https://127.0.0.1:1", []byte("ca"), certificateUser(Credentials{Cert: []byte("cert"), Key: []byte("key")}))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		CurrentContext string `json:"current-context"`
		Clusters       []struct {
			Cluster struct {
				Server string
				CA     []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Cert []byte `json:"client-certificate-data"`
				Key  []byte `json:"client-key-data"`
			}
		}
		Contexts []struct {
			Name    string
			Context struct{ Cluster, User string }
		}
	}
	if err := yaml.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Clusters) != 1 || len(got.Users) != 1 || len(got.Contexts) != 1 || got.Contexts[0].Name != got.CurrentContext {
		t.Fatalf("kubeconfig is\n%s", data)
	}
	cluster, user := got.Clusters[0].Cluster, got.Users[0].User
	if cluster.Server != "https://127.0.0.1:1" || string(cluster.CA) != "ca" || string(user.Cert) != "cert" || string(user.Key) != "key" {
		t.Errorf("kubeconfig is\n%s", data)
	}
}

func TestHolderOf(t *testing.T) {
	var mounts []*mountinfo.Info
	for _, point := range []string{"/", "/proc", "/var", "/var/lib/other", "/va"} {
		mounts = append(mounts, &mountinfo.Info{Mountpoint: point})
	}
	for path, want := range map[string]string{
		"/var/lib": "/var", "/var/lib/other": "/var/lib/other", "/var/lib/otherwise": "/var",
		"/proc/sys/vm": "/proc", "/vault": "/", "/": "/",
	} {
		if got := holderOf(mounts, path); got != want {
			t.Errorf("%s is held by %s, want %s", path, got, want)
		}
	}
}

// TestReadAudit has the log written in pieces of any size, and read after each.
func TestReadAudit(t *testing.T) {
	cp := &ControlPlane{dir: t.TempDir()}
	if err := os.Mkdir(cp.path("logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if next, err := cp.ReadAudit(0, nil); err != nil || next != 0 {
		t.Errorf("without a log: %d, %v", next, err)
	}
	rapid.Check(t, func(t *rapid.T) {
		verbs := rapid.SliceOf(rapid.SampledFrom([]string{"get", "delete", "watch"})).Draw(t, "verbs")
		var log bytes.Buffer
		for _, v := range verbs {
			log.WriteString(`{"verb": "` + v + `", "objectRef": {"resource": "pods"}, "responseStatus": {"code": 200}}` + "\n")
		}
		var (
			got  []string
			from int64
		)
		for written := 0; written < log.Len(); {
			written += rapid.IntRange(1, log.Len()-written).Draw(t, "piece")
			if err := os.WriteFile(cp.AuditLog(), log.Bytes()[:written], 0o600); err != nil {
				t.Fatal(err)
			}
			next, err := cp.ReadAudit(from, func(e AuditEvent) {
				got = append(got, e.Verb)
				if e.ObjectRef.Resource != "pods" || e.ResponseStatus.Code != 200 {
					t.Fatalf("event %+v", e)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			from = next
		}
		if !slices.Equal(got, verbs) {
			t.Fatalf("read %v, want %v", got, verbs)
		}
	})
}

// FuzzReadAudit feeds it what an API server would not write.
func FuzzReadAudit(f *testing.F) {
	f.Add([]byte("{}\n{\"verb\": 3}\n"))
	f.Add([]byte("\n\n"))
	f.Add([]byte("{\"verb\": \"get\"}\n{\"ver"))
	f.Fuzz(func(t *testing.T, log []byte) {
		cp := &ControlPlane{dir: t.TempDir()}
		if err := os.Mkdir(cp.path("logs"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(cp.AuditLog(), log, 0o600); err != nil {
			t.Fatal(err)
		}
		events := 0
		next, err := cp.ReadAudit(0, func(AuditEvent) { events++ })
		if next > int64(len(log)) || events > bytes.Count(log, []byte("\n")) {
			t.Errorf("read %d events up to %d of %d bytes", events, next, len(log))
		}
		if next > 0 && log[next-1] != '\n' {
			t.Errorf("stopped within a line, at %d", next)
		}
		if err == nil && bytes.Contains(log[next:], []byte("\n")) {
			t.Errorf("left whole lines unread: %q", log[next:])
		}
	})
}
