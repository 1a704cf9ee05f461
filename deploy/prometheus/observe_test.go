package prometheus

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/tools/prometheus"
)

// inObserveMode returns a story as it would be if nothing were enforced. changed is false if nothing in it
// shows that something is.
func inObserveMode(input []series) (observed []series, changed bool) {
	for _, s := range input {
		before := s
		s.Series = strings.ReplaceAll(s.Series, `mode="enforce"`, `mode="observe"`)
		switch {
		case strings.HasPrefix(s.Series, "ebb_controller_observing{"):
			s.Values = strings.ReplaceAll(s.Values, "0x", "1x")
		case strings.HasPrefix(s.Series, "ebb_controller_collector_enforcing{"):
			s.Values = strings.ReplaceAll(s.Values, "1x", "0x")
		}
		changed = changed || s != before
		observed = append(observed, s)
	}
	return observed, changed
}

// nobody is the beginning of the names of alerts that page in mode observe, too: no program does ebb's
// job.
const nobody = "EbbNobodyCollects"

// TestNothingPagesInObserveMode evaluates the stories of all other alerts again as if ebb observed. None
// may fire.
func TestNothingPagesInObserveMode(t *testing.T) {
	needPrometheus(t)
	var tests unitTests
	read(t, "rules_test.yaml", &tests)
	covered := map[string]bool{}
	tests.Tests = slices.DeleteFunc(tests.Tests, func(u unitTest) bool { return strings.HasPrefix(u.Name, nobody) })
	for i := range tests.Tests {
		test := &tests.Tests[i]
		input, changed := inObserveMode(test.Input)
		test.Input = input
		for k := range test.Alerts {
			covered[test.Alerts[k].Name] = covered[test.Alerts[k].Name] || changed && len(test.Alerts[k].Expected) > 0
			if len(test.Alerts[k].Expected) > 0 && !changed {
				t.Errorf("%s: nothing in the story shows that ebb enforces", test.Name)
			}
			test.Alerts[k].Expected = nil
		}
	}
	for _, name := range alertsOf(t, "rules.yaml") {
		if !covered[name] && !strings.HasPrefix(name, nobody) {
			t.Errorf("%s: no story", name)
		}
	}
	rules, err := os.ReadFile("rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(tests)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"rules.yaml": rules, "observe.yaml": text} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(tests.RuleFiles, []string{"rules.yaml"}) {
		t.Errorf("the stories are about %v", tests.RuleFiles)
	}
	if _, err := prometheus.Promtool(t.Context(), dir, "test", "rules", "observe.yaml"); err != nil {
		t.Error(err)
	}
}
