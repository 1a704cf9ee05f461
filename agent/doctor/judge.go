package doctor

// Judge says what is right and what is not. It looks at nothing but the facts.
func Judge(f Facts) Report {
	all := &findings{section: "kubelet"}
	judgeKubelet(all, &f)
	judgeImages(all, &f)
	judgePulled(all, &f)
	judgeContainers(all, &f)
	all.section = "lines"
	judgeLines(all, &f)
	all.section = "runtime"
	judgeRuntime(all, &f)
	all.section = "disks"
	judgeDisks(all, &f)
	all.section = "kernel"
	judgeKernel(all, &f)
	judgeProbes(all, &f)
	all.section = "agent"
	judgeAgent(all, &f)
	return Report{
		Format: 1, Node: line(f.Node), Kernel: line(f.Kernel.Release), Config: line(f.ConfigFile),
		Kubelet: kubeletReport(&f.Kubelet), Checks: all.checks, Summary: all.summary(),
	}
}

func kubeletReport(k *KubeletFacts) *KubeletReport {
	if k.Source == "" {
		return nil
	}
	r := &KubeletReport{Complete: k.Err == nil, Settings: k.Settings.Lines()}
	for i := range r.Settings {
		s := &r.Settings[i]
		s.Name, s.Value, s.From = line(s.Name), line(s.Value), line(s.From)
	}
	if k.Chosen != nil {
		r.PID = k.Chosen.PID
	}
	return r
}
