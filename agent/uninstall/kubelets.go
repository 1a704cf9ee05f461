package uninstall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
	"github.com/ebb-agent/ebb/agent/preview"
	runtimekube "github.com/ebb-agent/ebb/runtime/kube"
	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
)

const (
	// nodeTime bounds the request to one kubelet, nodesTime those to all. The chart's Job has five
	// minutes, and must report what it has found.
	nodeTime, nodesTime = 10 * time.Second, 3 * time.Minute
	// handedOver is the imageGCHighThresholdPercent of a kubelet that removes no images for space.
	handedOver = 100
)

// node has the fields of a Node that are read here: a whole one can have thousands of images.
type node struct {
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Status struct {
		Addresses       []corev1.NodeAddress
		DaemonEndpoints corev1.NodeDaemonEndpoints
	}
}

// checkKubelets asks each kubelet whether it collects images.
func (v *Verdict) checkKubelets(ctx context.Context, c *kube.Client, o CheckOptions) error {
	if o.LeaveImageGC {
		v.note("the kubelets were not asked who collects images (--leave-image-gc)")
		return nil
	}
	nodes, err := readAll[node](ctx, c, nodeType, kube.Selection{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	ask, err := asker(ctx, c, o)
	if err != nil {
		return fmt.Errorf("--kubelet-account %s: %w; it needs the right to get nodes/configz (docs/uninstall.md has the commands). "+
			"Or ask the kubelets by way of the API server: --kubelet-proxy", clean(o.KubeletAccount), err)
	}
	nodes = slices.DeleteFunc(nodes, func(n node) bool {
		return slices.Contains(o.LeaveNodes, n.Metadata.Name) || n.Metadata.Labels[corev1.LabelOSStable] == "windows" // ebb does not run there
	})
	v.Nodes = len(nodes)
	over, unknown := askAll(ctx, nodes, ask, newCounter(o.Progress, len(nodes), "kubelets were asked"))
	v.refuseNodes(over, unknown, o.KubeletProxy)
	return ctx.Err()
}

// askAll asks at most sixteen kubelets at a time, so that a few dead ones do not delay the others.
// It stops after nodesTime. Both results are by node: over has the setting that leaves images to
// ebb, unknown why a kubelet did not answer.
func askAll(ctx context.Context, nodes []node, ask askKubelet, asked *counter) (over, unknown map[string]string) {
	over, unknown = make(map[string]string), make(map[string]string)
	ctx, cancel := context.WithTimeoutCause(ctx, nodesTime, fmt.Errorf("not all kubelets answered within %s", nodesTime))
	defer cancel()
	var mu sync.Mutex
	preview.Each(len(nodes), func(i int) {
		s, err := askOne(ctx, nodes[i], ask)
		asked.add()
		mu.Lock()
		defer mu.Unlock()
		if name := nodes[i].Metadata.Name; err != nil {
			unknown[name] = err.Error()
		} else if s.ImageGCHighThresholdPercent.V == handedOver {
			over[name] = fmt.Sprintf("imageGCHighThresholdPercent: %d", handedOver)
			if age := s.ImageMaximumGCAge.V; age != 0 {
				over[name] += fmt.Sprintf(" (it still removes what was not used for %s)", age)
			}
		}
	})
	return over, unknown
}

func askOne(ctx context.Context, n node, ask askKubelet) (s kubelet.Settings, err error) {
	if ctx.Err() != nil {
		return s, fmt.Errorf("not asked: %w", context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTime)
	defer cancel()
	return ask(ctx, n)
}

func (v *Verdict) refuseNodes(over, unknown map[string]string, proxy bool) {
	v.refuse(Refusal{
		ID:   "image-gc",
		What: "nodes whose image garbage collection was handed over to ebb and not handed back",
		Why:  "nobody would remove images there until the eviction manager removes all unused ones at once and evicts pods",
		Fix: []string{
			"hand images back (docs/kubelet.md, \"Hand back\"): imageGCHighThresholdPercent: 85 and imageGCLowThresholdPercent: 80 " +
				"in the kubelets' configuration, or the file that set 100 removed; then systemctl restart kubelet",
		},
		Leave: []string{leaveEach("--leave-node", over), "--leave-image-gc"},
	}, lines(over))
	fix := []string{"bring them back, or delete the Nodes of machines that do not come back, and try again"}
	if !proxy {
		fix = append(fix, "if they cannot be reached from here, or are older than Kubernetes 1.33: --kubelet-proxy (uninstall.check.kubeletProxy of the chart), "+
			"which needs the right to get nodes/proxy")
	}
	v.refuse(Refusal{
		ID:    "nodes",
		What:  "nodes whose kubelets do not show who collects images",
		Why:   "image garbage collection may have been handed over there",
		Fix:   fix,
		Leave: []string{leaveEach("--leave-node", unknown), "--leave-image-gc"},
	}, lines(unknown))
	v.note("only its command line shows how many dead containers a kubelet keeps: " +
		"if --maximum-dead-containers flags were set to -1 for ebb, remove them (ebb doctor shows them)")
}

type askKubelet func(context.Context, node) (kubelet.Settings, error)

// asker returns the function that asks a kubelet for its configuration. Kubelets since 1.33
// authorize /configz apart from the rest. The API server does not: a request through it needs
// nodes/proxy, a right that can also run commands on nodes.
func asker(ctx context.Context, c *kube.Client, o CheckOptions) (askKubelet, error) {
	if o.KubeletProxy {
		return func(ctx context.Context, n node) (s kubelet.Settings, err error) {
			var answer json.RawMessage
			if err := c.Send(ctx, http.MethodGet, "/api/v1/nodes/"+url.PathEscape(n.Metadata.Name)+"/proxy/configz", nil, nil, &answer); err != nil {
				return s, err
			}
			return kubelet.FromAnswer(answer)
		}, nil
	}
	token, err := tokenOf(ctx, c, o.KubeletAccount)
	return func(ctx context.Context, n node) (s kubelet.Settings, err error) {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				at := net.JoinHostPort(a.Address, strconv.Itoa(int(n.Status.DaemonEndpoints.KubeletEndpoint.Port)))
				return kubelet.FromKubelet(ctx, runtimekube.KubeletOptions{URL: "https://" + at, Token: token, InsecureSkipVerify: true})
			}
		}
		return s, errors.New("its Node has no InternalIP")
	}, err
}

// tokenOf makes a token to ask kubelets with. Most kubelets sign their certificates themselves, so
// these are not verified; by default the API server does not verify them either. A node could use
// the token, so its account must have no other rights.
func tokenOf(ctx context.Context, c *kube.Client, account string) (string, error) {
	namespace, name, ok := strings.Cut(account, "/")
	if !ok {
		return "", errors.New("want NAMESPACE/NAME")
	}
	body := object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{"expirationSeconds": 600}}
	var answer struct{ Status struct{ Token string } }
	err := send(ctx, c, http.MethodPost, pathOf(typeOf("v1", "ServiceAccount"), namespace, name)+"/token", nil, body, &answer)
	if err == nil && answer.Status.Token == "" {
		err = errors.New("no token was given")
	}
	return answer.Status.Token, err
}
