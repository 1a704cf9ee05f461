package gc

// Tally counts by name. The empty name is not counted.
type Tally map[string]int

// Add adds n to the count of a name. It reports whether the name appeared or disappeared.
func (t Tally) Add(name string, n int) (turned bool) {
	if name == "" {
		return false
	}
	before := t[name]
	if t[name] = before + n; t[name] <= 0 {
		delete(t, name)
	}
	return before > 0 != (t[name] > 0)
}
