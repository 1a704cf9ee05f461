package prometheus

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Exported holds the label values that programs export from their start, by metric name
// and label name.
type Exported map[string]map[string][]string

// Gather collects the label values of registries. It does not see values that appear only
// while a program runs.
func Gather(registries ...prometheus.Gatherer) (Exported, error) {
	all := Exported{}
	for _, r := range registries {
		families, err := r.Gather()
		if err != nil {
			return nil, err
		}
		for _, f := range families {
			labels := all[f.GetName()]
			if labels == nil {
				labels = map[string][]string{}
			}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
				}
			}
			all[f.GetName()] = labels
		}
	}
	return all, nil
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// Strange returns the values in a selector that no series has. Such a typo gives no
// error, only an alert that never fires.
func (e Exported) Strange(u Use) (strange []string) {
	for _, m := range u.Matchers {
		have := e[u.Name][m.Label]
		if len(have) == 0 {
			continue // not known from the start
		}
		for _, v := range m.Values {
			if plain.MatchString(v) && !slices.Contains(have, v) {
				strange = append(strange, fmt.Sprintf("%s has no series with %s %q", u.Name, m.Label, v))
			}
		}
	}
	return strange
}
