package doctor

type question func(*findings, *Facts)

// questions has the sections of the report, in order, with the checks of each.
var questions = []struct {
	section, title string
	ask            []question
}{
	{"kubelet", "Beside the kubelet", []question{evaluateKubelet, evaluateImages, evaluateContainers, evaluateLogs}},
	{"thresholds", "ebb's thresholds and the eviction manager's", []question{evaluateThresholds}},
	{"runtime", "Container runtime", []question{evaluateRuntime}},
	{"disks", "Disks", []question{evaluateDisks, evaluateNodefs}},
	{"kernel", "Kernel", []question{evaluateRelease, evaluateKernel, evaluateCapabilities, evaluateMounts, evaluateProbes}},
	{"agent", "Agent", []question{evaluateState, evaluateAgent, evaluatePods}},
}

// Evaluate checks the facts, and reads nothing else.
func Evaluate(f Facts) Report {
	var all findings
	for _, q := range questions {
		all.section = q.section
		for _, ask := range q.ask {
			ask(&all, &f)
		}
	}
	r := Report{
		Format: 1, Node: line(f.Node), Kernel: line(f.Kernel.Release), Config: line(f.ConfigFile),
		Checks: all.checks, Summary: all.summary(),
	}
	if k := &f.Kubelet; k.Source != "" {
		r.Kubelet = &KubeletReport{Complete: k.Err == nil, Settings: k.Settings.List()}
		for i := range r.Kubelet.Settings {
			s := &r.Kubelet.Settings[i]
			s.Name, s.Value, s.From = line(s.Name), line(s.Value), line(s.From)
		}
		if k.Chosen != nil {
			r.Kubelet.PID = k.Chosen.PID
		}
	}
	return r
}
