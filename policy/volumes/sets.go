package volumes

// claimed is what is kept of a claim.
type claimed struct {
	volume string // that it names
	blind  bool   // its fields could not be read
}

// tally counts by name.
type tally map[string]int

// add n, and say whether the name came or went.
func (t tally) add(name string, n int) (turned bool) {
	if name == "" {
		return false
	}
	before := t[name]
	if t[name] = before + n; t[name] <= 0 {
		delete(t, name)
	}
	return before > 0 != (t[name] > 0)
}
