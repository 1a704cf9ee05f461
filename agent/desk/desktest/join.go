package desktest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/tools/peers"
)

// Join adds nodes and their agents' pods to a control plane. One kubelet serves all of them; the
// caller must Close it. Join writes files to dir.
func Join(ctx context.Context, cp *peers.ControlPlane, dir string, nodes []string) (_ *Kubelet, err error) {
	if err := letAskKubelets(ctx, cp, dir); err != nil {
		return nil, err
	}
	k, err := StartKubelet(dir, func(h http.Handler) (*httptest.Server, error) { return cp.Authority().Serve(h, "kubelet") })
	if err != nil {
		return nil, err
	}
	if err := k.join(ctx, cp, nodes); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// letAskKubelets gives the API server a client certificate for kubelets and the certificate
// authority of the kubelet, and restarts it.
func letAskKubelets(ctx context.Context, cp *peers.ControlPlane, dir string) error {
	creds, err := cp.Authority().Client(peers.User{Name: "kube-apiserver-kubelet-client"})
	if err != nil {
		return err
	}
	files, err := creds.Write(dir, "kubelet-client")
	if err != nil {
		return err
	}
	cp.APIServer.SetArgs("--kubelet-client-certificate="+files.Cert, "--kubelet-client-key="+files.Key,
		"--kubelet-certificate-authority="+files.CA, "--kubelet-preferred-address-types=InternalIP")
	return cp.APIServer.Restart(ctx)
}

// join makes the pods, and the nodes that they are bound to.
func (k *Kubelet) join(ctx context.Context, cp *peers.ControlPlane, nodes []string) error {
	admin, err := cp.Admin()
	if err != nil {
		return err
	}
	create := func(path string, o object) error {
		return peers.Request(ctx, admin, http.MethodPost, cp.URL()+path, o, nil)
	}
	host, text, err := net.SplitHostPort(k.Server.Listener.Addr().String())
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	if err := create("/api/v1/namespaces", object{"metadata": object{"name": Namespace}}); err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(8)
	for _, pod := range Pods(nodes) {
		node := object{"metadata": object{"name": pod["metadata"].(object)["name"]}, "status": object{
			"addresses":       []object{{"type": "InternalIP", "address": host}},
			"daemonEndpoints": object{"kubeletEndpoint": object{"Port": port}},
		}}
		group.Go(func() error {
			if err := create("/api/v1/nodes", node); err != nil {
				return err
			}
			return create("/api/v1/namespaces/"+Namespace+"/pods", pod)
		})
	}
	return group.Wait()
}
