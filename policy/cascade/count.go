package cascade

// Waiting counts deleted owners with a collector's finalizer: foreground those that wait
// for their dependents' deletion, orphan those whose dependents are to be orphaned. It
// visits every node: a millisecond for 100,000.
func (c *Collector) Waiting() (foreground, orphan int) {
	for i := index(1); i <= c.used; i++ {
		switch f := c.at(i).flags; {
		case f&observed == 0 || f&terminating == 0:
		case f&wantsOrphan != 0: // orphan is handled first
			orphan++
		case f&wantsForegr != 0:
			foreground++
		}
	}
	return foreground, orphan
}
