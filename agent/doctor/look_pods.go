package doctor

import (
	"cmp"
	"context"
	"errors"
	"os"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// lookAtPods asks the source of pods once, as the agent would.
func lookAtPods(ctx context.Context, c config.Pods) PodFacts {
	p := PodFacts{Source: c.Source}
	switch c.Source {
	case config.PodsFromKubelet:
		p.From = "the kubelet at " + c.Kubelet.URL
		kubelet, err := kube.NewKubelet(kube.KubeletOptions{
			URL: c.Kubelet.URL, CAFile: c.Kubelet.CertificateAuthority, ServerName: c.Kubelet.ServerName,
			InsecureSkipVerify: c.Kubelet.InsecureSkipTLSVerify, TokenFile: c.Kubelet.TokenFile,
			CertFile: c.Kubelet.ClientCertificate, KeyFile: c.Kubelet.ClientKey,
		})
		if p.Err = err; err == nil {
			p.Count, p.Err = countPods(ctx, kubelet, false)
		}
	case config.PodsFromAPIServer:
		name := cmp.Or(c.APIServer.NodeName, os.Getenv("NODE_NAME"))
		p.From = "the API server, for node " + name
		server, err := kube.NewAPIServer(kube.APIServerOptions{NodeName: name, Kubeconfig: c.APIServer.Kubeconfig})
		if p.Err = err; err == nil {
			p.Count, p.Err = countPods(ctx, server, true)
		}
	}
	return p
}

// countPods asks once, or waits for a while until a source that watches has
// listed all pods.
func countPods(ctx context.Context, source kube.Source, watches bool) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	changed := make(chan struct{}, 1)
	done := make(chan error, 1)
	go func() { done <- source.Run(ctx, changed) }()
	// The source is let go before anything is said.
	defer func() { cancel(); <-done }()
	for {
		pods, err := source.Pods(ctx)
		if err == nil || !watches || errors.Is(err, kube.ErrUnauthorized) || errors.Is(err, kube.ErrForbidden) {
			return len(pods.List), err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, err
		}
	}
}
