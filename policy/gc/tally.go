package gc

// Tally counts by name. What has no name ("") is not counted.
type Tally map[string]int

// Add n, and say whether the name came or went.
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
