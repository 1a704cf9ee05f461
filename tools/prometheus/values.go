package prometheus

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Exported are the values that labels have in what programs export from their start, by
// the names of metric and label.
type Exported map[string]map[string][]string

// Gather asks registries. What is only known when a program runs is not in it.
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

// Strange lists the values that a selector compares labels with and that no series has: a
// slip of the pen gives no error, only an alert that never fires.
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
