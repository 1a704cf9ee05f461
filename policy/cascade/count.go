package cascade

// Waiting is how many owners have been deleted and have a collector's finalizer: those
// that wait for their dependents to go, and those whose dependents are to be
// orphaned. It looks at every node: a millisecond for 100,000.
func (c *Collector) Waiting() (foreground, orphan int) {
	for i := index(1); i <= c.used; i++ {
		switch f := c.at(i).flags; {
		case f&observed == 0 || f&terminating == 0:
		case f&wantsOrphan != 0: // it is the first to be served
			orphan++
		case f&wantsForegr != 0:
			foreground++
		}
	}
	return foreground, orphan
}
