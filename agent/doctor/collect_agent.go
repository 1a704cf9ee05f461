package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/lock"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// readAgent reads the state directory and the lock of an agent, and asks the agent, which may not
// be running, whether it is ready.
func readAgent(ctx context.Context, c config.Config) AgentFacts {
	a := AgentFacts{
		Address: cmp.Or(c.Server.HealthAddress, c.Server.Address), StateDir: c.State.Directory, StateErr: writable(c.State.Directory),
		LockFile: c.State.LockFile, LockErr: writable(filepath.Dir(c.State.LockFile)),
	}
	if h, held, err := lock.Look(c.State.LockFile); held {
		a.Holder = h.String()
	} else if a.LockErr == nil {
		a.LockErr = err
	}
	if a.Address != "" {
		a.askReady(ctx)
	}
	return a
}

func (a *AgentFacts) askReady(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.Address+"/readyz", nil)
	if err != nil {
		return
	}
	transport := &http.Transport{DisableKeepAlives: true} // no proxy: the agent is on this machine
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxLine)) // a part is enough
	a.Answered, a.Ready, a.Says = true, response.StatusCode == http.StatusOK, string(body)
}

// writable checks, without writing, whether a directory can be written to. If the directory does
// not exist, it checks the nearest one above it that does.
func writable(dir string) error {
	dir = nearest(dir)
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%s is no directory", dir)
	}
	return err
}

// readPods asks the source of pods once, as the agent would.
func readPods(ctx context.Context, c config.Pods) PodFacts {
	p := PodFacts{Source: c.Source}
	var source kube.Source
	switch c.Source {
	case config.PodsFromKubelet:
		p.From = "the kubelet at " + c.Kubelet.URL
		source, p.Err = kube.NewKubelet(kubeletOptions(c.Kubelet))
	case config.PodsFromAPIServer:
		name := cmp.Or(c.APIServer.NodeName, os.Getenv("NODE_NAME"))
		p.From = "the API server, for node " + name
		source, p.Err = kube.NewAPIServer(kube.APIServerOptions{NodeName: name, Kubeconfig: c.APIServer.Kubeconfig})
	default:
		return p
	}
	if p.Err == nil {
		p.Count, p.Err = countPods(ctx, source, c.Source == config.PodsFromAPIServer)
	}
	return p
}

// countPods asks the source once. If the source watches, it waits up to answerTime until the source
// has listed all pods.
func countPods(ctx context.Context, source kube.Source, watches bool) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	changed := make(chan struct{}, 1)
	done := make(chan error, 1)
	go func() { done <- source.Run(ctx, changed) }()
	// The source is closed before anything is returned.
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
