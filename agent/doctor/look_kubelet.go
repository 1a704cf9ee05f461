package doctor

import (
	"context"
	"os"
	"path/filepath"

	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
	"github.com/ebb-agent/ebb/agent/node/config"
)

// lookAtKubelet finds the kubelet, reads its files and asks it, as far as that
// is possible.
func lookAtKubelet(ctx context.Context, o Options, socket string) KubeletFacts {
	var k KubeletFacts
	if o.KubeletPID != 0 {
		p, err := kubelet.Look(o.Proc, o.KubeletPID)
		if err != nil {
			k.FindErr = err
		} else {
			k.Found, k.Chosen = []kubelet.Process{p}, &p
		}
	} else {
		k.Found, k.FindErr = kubelet.Find(o.Proc)
		k.Chosen = choose(k.Found, socket)
	}
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
	k.ask(ctx, o)
	if k.Chosen != nil && !k.Asked {
		k.Changed = k.Chosen.ChangedSince()
	}
	return k
}

// ask asks the kubelet if that was asked for, or if the agent is allowed to ask
// it for pods. The latter may well not include its configuration, and need not.
func (k *KubeletFacts) ask(ctx context.Context, o Options) {
	access, demanded := o.Kubelet, true
	if access.URL == "" {
		if o.Config.Pods.Source != config.PodsFromKubelet {
			return
		}
		access, demanded = accessOf(o.Config.Pods.Kubelet), false
	}
	asked, err := kubelet.FromKubelet(ctx, access)
	switch {
	case err != nil && k.known():
		k.AskErr, k.Demanded = err, demanded // the files will do
	case err != nil && demanded:
		k.Source, k.Err = access.URL, err
	case err != nil:
	case k.known():
		k.Asked = true
		k.Settings, k.Different = kubelet.Reconcile(k.Settings, asked)
		k.Source += ", and from " + access.URL + "/configz"
	default:
		k.Asked = true
		k.Source, k.Settings, k.Err = access.URL+"/configz", asked, nil
		k.takeFlags()
	}
}

func accessOf(c config.Kubelet) kubelet.Access {
	return kubelet.Access{
		URL: c.URL, TokenFile: c.TokenFile, CertFile: c.ClientCertificate, KeyFile: c.ClientKey,
		CAFile: c.CertificateAuthority, ServerName: c.ServerName, InsecureSkipVerify: c.InsecureSkipTLSVerify,
	}
}

func (k *KubeletFacts) takeFlags() {
	if k.Chosen != nil && k.Err == nil {
		k.Settings.TakeFlags(k.Chosen)
	}
}

// choose takes the kubelet that uses a runtime's socket, else the first.
func choose(found []kubelet.Process, socket string) *kubelet.Process {
	for i := range found {
		s, err := found[i].Settings()
		if err == nil && sameFile(s.Socket(), socket) {
			return &found[i]
		}
	}
	if len(found) == 0 {
		return nil
	}
	return &found[0]
}

// sameFile tells whether two paths lead to one file: /var/run is /run.
func sameFile(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	ia, errA := os.Stat(a)
	ib, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(ia, ib)
}
