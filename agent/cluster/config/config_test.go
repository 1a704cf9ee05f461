package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/tools/golden"
)

// default.yaml names every field, and has the values of Default.
func TestDefaults(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "comments": "# nothing\n", "default.yaml": DefaultYAML} {
		c, err := Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(Default(), c); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	var walk func(indent string, typ reflect.Type)
	walk = func(indent string, typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			if !strings.Contains(DefaultYAML, "\n"+indent+f.Tag.Get("json")+":") {
				t.Errorf("default.yaml does not name %s", f.Name)
			}
			if f.Type.Kind() == reflect.Struct {
				walk(indent+"  ", f.Type)
			}
		}
	}
	walk("", reflect.TypeFor[Config]())
}

// TestObservesByDefault: the controller changes nothing unless the mode is exactly "enforce".
func TestObservesByDefault(t *testing.T) {
	for _, text := range []string{"", DefaultYAML, "mode: observe\n", "circuitBreaker: {deletions: 5}\n", "paused: false\n"} {
		c, err := Parse([]byte(text))
		if err != nil || c.Mode != Observe {
			t.Errorf("%.30q: mode %s, %v", text, c.Mode, err)
		}
	}
}

func TestDocument(t *testing.T) {
	want := "# Configuration of ebb-controller\n\nThis page is for operators who configure the controller. [operate.md](operate.md#tune) has what is changed most often.\nThe controller refuses unknown fields. `ebb-controller config default` prints the same.\n\n```yaml\n" + DefaultYAML + "```\n"
	golden.Check(t, "../../../docs/controller-config.md", want)
}

// Every problem is reported once, with the path of its field.
func TestProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"unknown":      {"server: {addres: x}\nmod: observe\n", []string{"mod: unknown field (known here: mode,", "server.addres: unknown field (known here: address, healthAddress, webConfigFile, adminSocket)"}},
		"types":        {"paused: 1\ncircuitBreaker: 3\nconcurrency: {max: many}\nexclude: {types: pods}\n", []string{"paused: want true or false, got 1", "circuitBreaker: want a mapping", `concurrency.max: want a whole number, got the string "many"`, `exclude.types: want a list, got the string "pods"`}},
		"duration":     {"requestTimeout: 30\ncircuitBreaker: {window: soon}\n", []string{`requestTimeout: want a duration such as "90s" or "12h45m", got 30`, `circuitBreaker.window: want a duration such as "90s" or "12h45m", got the string "soon"`}},
		"null":         {"mode:\n", []string{"mode: want a string, got nothing"}},
		"list":         {"- a\n", []string{"(whole file): want a mapping"}},
		"not YAML":     {"a: [", []string{"not valid YAML"}},
		"twice":        {"mode: observe\nmode: enforce\n", []string{"not valid YAML"}},
		"values":       {"mode: dry\nlog: {level: loud, format: xml}\nforegroundPatience: 1ms\n", []string{`mode: "dry" is not one of`, `log.level: "loud"`, `log.format: "xml"`, "foregroundPatience: 1ms is not between"}},
		"bounds":       {"circuitBreaker: {deletions: -1}\nconcurrency: {start: 33}\n", []string{"circuitBreaker.deletions: -1 is negative", "concurrency.start: 33 is not between 1 and concurrency.max (32)"}},
		"envelope":     {"envelope: {burst: -1, perMinute: 0}\n", []string{"envelope.burst: -1 is negative", "envelope.perMinute: 0 is not between 1 and 1000000"}},
		"most":         {"concurrency: {start: 1, max: 2000}\n", []string{"concurrency.max: 2000 is not between 1 and 1024"}},
		"patterns":     {"exclude: {types: [Pods, pods, 'a/b'], namespaces: [Kube]}\norphanWithout: ['']\n", []string{`exclude.types[0]: "Pods"`, `exclude.types[2]: "a/b"`, `exclude.namespaces[0]: "Kube"`, `orphanWithout[0]: ""`}},
		"election":     {"leaderElection: {retryPeriod: 10ms, renewDeadline: 10ms, leaseDuration: 1500ms, namespace: A, name: _}\n", []string{"leaderElection.retryPeriod", "leaderElection.renewDeadline", "leaderElection.leaseDuration: 1.5s is not a number of whole seconds", "leaderElection.namespace:", "leaderElection.name:"}},
		"owners off":   {"collectors: {owners: {mode: off}, volumes: {mode: enforce}, jobs: {mode: enforce}}\n", []string{`collectors.volumes.mode: "enforce" needs collectors.owners.mode observe or enforce`}},
		"no election":  {"leaderElection: {enabled: false, namespace: ''}\n", nil},
		"address":      {"server: {address: localhost}\n", []string{"server.address: want host:port"}},
		"port":         {"server: {address: 'localhost:http'}\n", []string{`server.address: port "http"`}},
		"socket":       {"server: {adminSocket: ebb.sock}\n", []string{`server.adminSocket: "ebb.sock"`}},
		"health":       {"server: {healthAddress: 'localhost:http'}\n", []string{`server.healthAddress: port "http"`}},
		"no health":    {"server: {webConfigFile: /web.yml}\n", []string{"server.webConfigFile: needs server.address, which it is for, and server.healthAddress"}},
		"relative web": {"server: {webConfigFile: web.yml, healthAddress: ':0'}\n", []string{"server.webConfigFile: \"web.yml\" is not"}},
		"web":          {"server: {webConfigFile: /web.yml, healthAddress: ':0'}\n", nil},
		"without both": {"server: {adminSocket: '', address: ''}\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(tc.text))
			if len(tc.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.want {
				if strings.Count(err.Error(), want) != 1 {
					t.Errorf("does not contain exactly once %q:\n%v", want, err)
				}
			}
			if name != "not YAML" && name != "twice" && strings.Count(err.Error(), "\n")+1 != len(tc.want) {
				t.Errorf("want %d problems:\n%v", len(tc.want), err)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("circuitBreaker: {window: 90s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path)
	if err != nil || c.CircuitBreaker.Window != Duration(90*time.Second) || c.CircuitBreaker.Deletions != 50000 {
		t.Errorf("%+v, %v", c.CircuitBreaker, err)
	}
	for _, wrong := range []string{path + "x", filepath.Dir(path)} {
		if _, err := Load(wrong); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestPatterns(t *testing.T) {
	p := Patterns{"configmaps", "deployments.apps", "*.example.com", "*"}
	for _, tc := range []struct {
		resource, group string
		want            bool
	}{
		{"configmaps", "", true}, {"configmaps", "apps", false}, {"deployments", "apps", true}, {"deployments", "extensions", false},
		{"widgets", "example.com", true}, {"widgets", "sub.example.com", false}, {"secrets", "", true},
	} {
		if got := p.Match(tc.resource, tc.group); got != tc.want {
			t.Errorf("%s.%s: %v", tc.resource, tc.group, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(DefaultYAML))
	f.Add([]byte("exclude: {types: [a.b], namespaces: [x]}\nserver:\n  address: '[::1]:0'\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err == nil && len(c.problems(nil)) > 0 {
			t.Errorf("taken although wrong: %v", c.problems(nil))
		}
	})
}
