package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// kubelets do what those of a thousand machines would: they take the pods that are bound to
// their nodes, say that what unloads has ended, and let go what is deleted. Those of dead
// nodes do nothing.
type kubelets struct {
	t     *testing.T
	pods  core.PodInterface
	takes time.Duration // to unload

	mu      sync.Mutex
	dead    map[string]bool
	seen    map[types.UID]bool // pods that were taken
	going   map[types.UID]bool
	started map[string]int // pods, by node
	busy    int            // of started, that have not ended
	busiest int
	room    chan struct{}
	work    sync.WaitGroup
}

func startKubelets(t *testing.T, kubeconfig string, takes time.Duration) *kubelets {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := core.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelets{t: t, pods: client.Pods(namespace), takes: takes, dead: map[string]bool{}, seen: map[types.UID]bool{},
		going: map[types.UID]bool{}, started: map[string]int{}, room: make(chan struct{}, 16)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	watch := cache.NewListWatchFromClient(client.RESTClient(), "pods", namespace, fields.Everything())
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: watch, ObjectType: &corev1.Pod{}, ResyncPeriod: time.Second,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { k.look(ctx, o.(*corev1.Pod)) },
			UpdateFunc: func(_, o any) { k.look(ctx, o.(*corev1.Pod)) },
		}})
	k.work.Go(func() { controller.RunWithContext(ctx) })
	t.Cleanup(func() {
		cancel()
		k.work.Wait()
	})
	return k
}

// look is what a pod's kubelet does when it sees it.
func (k *kubelets) look(ctx context.Context, p *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch node := p.Spec.NodeName; {
	case node == "" || k.dead[node]:
	case p.DeletionTimestamp != nil && !k.going[p.UID]:
		k.going[p.UID] = true
		k.work.Go(func() { k.letGo(ctx, p) })
	case p.DeletionTimestamp == nil && !k.seen[p.UID]:
		k.seen[p.UID] = true
		k.started[node]++
		k.busy++
		k.busiest = max(k.busiest, k.busy)
		k.work.Go(func() { k.run(ctx, p) })
	}
}

func (k *kubelets) run(ctx context.Context, p *corev1.Pod) {
	started := object{"startTime": metav1.Now(), "phase": "Pending", "initContainerStatuses": []object{{"name": "unload", "state": object{"running": object{}}}}}
	ended := object{"phase": "Running", "initContainerStatuses": []object{{"name": "unload", "state": object{"terminated": object{"exitCode": 0}}}}}
	k.say(ctx, p, started)
	select {
	case <-time.After(k.takes):
	case <-ctx.Done():
	}
	k.say(ctx, p, ended)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy--
}

// say patches a pod's status; a pod that is gone has none.
func (k *kubelets) say(ctx context.Context, p *corev1.Pod, status object) {
	k.room <- struct{}{}
	defer func() { <-k.room }()
	data, err := json.Marshal(object{"metadata": object{"uid": p.UID}, "status": status})
	if err == nil {
		_, err = k.pods.Patch(ctx, p.Name, types.MergePatchType, data, metav1.PatchOptions{}, "status")
	}
	k.check(ctx, err)
}

func (k *kubelets) letGo(ctx context.Context, p *corev1.Pod) {
	k.room <- struct{}{}
	defer func() { <-k.room }()
	at := metav1.NewDeleteOptions(0)
	at.Preconditions = metav1.NewUIDPreconditions(string(p.UID))
	k.check(ctx, k.pods.Delete(ctx, p.Name, *at))
}

func (k *kubelets) check(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		k.t.Error(err)
	}
}

// begun is how many nodes have begun.
func (k *kubelets) begun() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.started)
}

// atMost is how many nodes have unloaded at the same time.
func (k *kubelets) atMost() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.busiest
}

// set marks nodes as dead or alive.
func (k *kubelets) set(dead bool, nodes ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, n := range nodes {
		k.dead[n] = dead
	}
}

// wantStarted demands how often each node was unloaded.
func (k *kubelets) wantStarted(nodes []string, want int) {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	var wrong []string
	for _, n := range nodes {
		if k.started[n] != want {
			wrong = append(wrong, fmt.Sprintf("%s: %d", n, k.started[n]))
		}
	}
	if len(wrong) > 0 {
		k.t.Errorf("%d nodes were not unloaded %d times: %s", len(wrong), want, strings.Join(wrong[:min(len(wrong), 5)], ", "))
	}
}

// node is one as its kubelet, and the node controller if that is dead, have made it.
func nodeObject(name string, dead bool) object {
	status, taints := "True", []object{}
	if dead {
		const unreachable = "node.kubernetes.io/unreachable"
		status, taints = "Unknown", []object{{"key": unreachable, "effect": "NoSchedule"}, {"key": unreachable, "effect": "NoExecute"}}
	}
	return object{"metadata": object{"name": name, "labels": object{"kubernetes.io/os": "linux"}}, "spec": object{"taints": taints}, "status": object{
		"allocatable": object{"pods": "110", "cpu": "4", "memory": "8Gi"},
		"conditions":  []object{{"type": "Ready", "status": status, "reason": "NodeStatusUnknown"}},
	}}
}
