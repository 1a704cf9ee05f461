package doctor

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// readKubelet finds the kubelet, reads its files and asks it, as far as possible.
func readKubelet(ctx context.Context, o Options, socket string) (k KubeletFacts) {
	k.Found, k.FindErr = kubelet.Find(proc, o.KubeletPID)
	k.Chosen = choose(k.Found, socket)
	if o.KubeletConfig != "" {
		k.Source = o.KubeletConfig + " (--kubelet-config)"
		k.Settings, k.Err = kubelet.FromFile(o.KubeletConfig)
		k.takeFlags()
		return k
	}
	if k.Chosen != nil {
		k.Source = "its command line"
		if file := k.Chosen.ConfigFile(); file != "" {
			k.Source += " and " + file
		}
		k.Settings, k.Err = k.Chosen.Settings()
	}
	if answered := k.ask(ctx, o); k.Chosen != nil && !answered {
		k.Changed = k.Chosen.Changed
	}
	return k
}

// ask asks the kubelet for its configuration, if the user demands that, or if the agent asks this
// kubelet for pods. The agent's right to read pods often does not include the configuration, and
// need not.
func (k *KubeletFacts) ask(ctx context.Context, o Options) (answered bool) {
	access, demanded := o.Kubelet, true
	if access.URL == "" {
		if o.Config.Pods.Source != config.PodsFromKubelet {
			return false
		}
		access, demanded = kubeletOptions(o.Config.Pods.Kubelet), false
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	asked, err := kubelet.FromKubelet(ctx, access)
	switch {
	case err != nil && k.known():
		k.AskErr, k.Demanded = err, demanded // the files will do
	case err != nil && demanded:
		k.Source, k.Err = access.URL, err
	case err != nil:
	case k.known():
		k.Different = k.Settings.Reconcile(asked)
		k.Source += ", and from " + access.URL + "/configz"
	default:
		k.Source, k.Settings, k.Err = access.URL+"/configz", asked, nil
		k.takeFlags()
	}
	return err == nil
}

func kubeletOptions(c config.PodsKubelet) kube.KubeletOptions {
	return kube.KubeletOptions{
		URL: c.URL, TokenFile: c.TokenFile, CertFile: c.ClientCertificate, KeyFile: c.ClientKey,
		CAFile: c.CertificateAuthority, ServerName: c.ServerName, InsecureSkipVerify: c.InsecureSkipTLSVerify,
	}
}

func (k *KubeletFacts) takeFlags() {
	if k.Chosen != nil && k.Err == nil {
		k.Settings.TakeFlags(k.Chosen)
	}
}

// choose returns the kubelet that uses a runtime's socket, else the first; nil if there is none.
func choose(found []kubelet.Process, socket string) *kubelet.Process {
	if len(found) == 0 {
		return nil
	}
	i := slices.IndexFunc(found, func(p kubelet.Process) bool {
		s, err := p.Settings()
		return err == nil && sameFile(s.Socket(), socket)
	})
	return &found[max(i, 0)]
}

// sameFile reports whether two paths lead to one file: /var/run can be a link to /run.
func sameFile(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	ia, errA := os.Stat(a)
	ib, errB := os.Stat(b)
	return filepath.Clean(a) == filepath.Clean(b) || errA == nil && errB == nil && os.SameFile(ia, ib)
}
