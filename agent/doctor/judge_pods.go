package doctor

// judgePods: can the agent ask who runs on this node?
func judgePods(_ *findings, _ *Facts) {}
