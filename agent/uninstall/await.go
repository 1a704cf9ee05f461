package uninstall

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/runtime/wait"
)

const (
	// podsPerSecond is how many pods a kube-controller-manager makes with its defaults.
	podsPerSecond = 20
	// progressEach is how often progress is printed although nothing has changed.
	progressEach = 30 * time.Second
)

// looks is what was read about the nodes that are left.
type looks struct {
	left []string
	seen map[string]time.Time // by pod: when it was first seen
	at   map[string]*status   // by node
	none string               // why there is no pod; "": there is one, or the reason is unknown
	err  error                // of the latest read of pods

	clean        int // number of nodes
	printed      time.Time
	printedClean int
}

// total returns how many nodes have to be clean in the end.
func (l *looks) total() int { return l.clean + len(l.left) }

// await reads all pods until every node is clean, the time is up, or no other node can be expected
// to become clean.
func (u *unloader) await(ctx context.Context, left []string, done *Unloaded) error {
	l := &looks{left: left, seen: map[string]time.Time{}, printed: u.begun, printedClean: -1}
	limit := u.o.Timeout + time.Duration(len(left))*time.Second/podsPerSecond
	for {
		u.look(ctx, l)
		hope := u.judge(l)
		done.Clean = l.clean
		if ctx.Err() != nil {
			return ctx.Err()
		}
		u.count(l)
		if !hope || time.Since(u.begun) > limit {
			u.report(l, done)
			return nil
		}
		if !pauseFor(ctx, max(len(l.at), len(l.left))) {
			return ctx.Err()
		}
	}
}

// look reads all pods with one list. After the patience, it also reads which nodes still exist.
func (u *unloader) look(ctx context.Context, l *looks) {
	var pods []corev1.Pod
	pods, l.err = readAll[corev1.Pod](ctx, u.Client, podType, kube.Selection{Namespace: u.o.Namespace, Labels: runLabel + "=" + u.run})
	l.at = make(map[string]*status, len(pods))
	for i := range pods {
		if name := pods[i].Name; l.seen[name].IsZero() {
			l.seen[name] = time.Now()
		}
		l.at[nodeOf(&pods[i])] = statusOf(&pods[i], u.template.text("name"))
	}
	if l.none = ""; len(pods) == 0 && l.err == nil {
		l.none = u.whyNone(ctx)
	}
	if time.Since(u.begun) > patience { // nodes may have been deleted, or added
		now, err := u.nodes(ctx, u.selection())
		switch {
		case err != nil:
		case len(u.o.Nodes) == 0:
			l.left = slices.DeleteFunc(now, func(name string) bool { return u.known[name] })
		default:
			l.left = slices.DeleteFunc(l.left, func(name string) bool { return !slices.Contains(now, name) })
		}
	}
}

// judge counts the nodes that are clean, and removes them from those that are left. It reports
// whether others can be expected to become clean; if the pods could not be read, it assumes so.
func (u *unloader) judge(l *looks) (hope bool) {
	few := l.total() <= mostNamed
	l.left = slices.DeleteFunc(l.left, func(name string) bool {
		s := l.at[name]
		if s == nil || !s.clean {
			return false
		}
		u.known[name] = true
		l.clean++
		if few {
			u.say("node %s: %s", clean(name), Clean)
		}
		return true
	})
	for _, name := range l.left {
		s := l.at[name]
		dead := s != nil && !s.taken && time.Since(l.seen[s.pod]) > patience
		hope = hope || !dead && l.none == "" && (s == nil || s.restarts < restarts)
	}
	return hope || l.err != nil
}

// count prints progress at least each progressEach. Of many nodes, it also prints the number
// whenever that changes. A few nodes are printed one by one as they become clean.
func (u *unloader) count(l *looks) {
	if (l.total() <= mostNamed || l.clean == l.printedClean) && time.Since(l.printed) < progressEach {
		return
	}
	l.printed, l.printedClean = time.Now(), l.clean
	if l.err != nil {
		u.say("%d of %d nodes were clean when the pods were last read: %s", l.clean, l.total(), clean(l.err.Error()))
		return
	}
	var made, taken int
	for _, name := range l.left {
		if s := l.at[name]; s != nil {
			made++
			if s.taken {
				taken++
			}
		}
	}
	u.say("%d of %d nodes are clean after %s. Of the others, %d have started, the kubelets of %d have not started the pod, and %d have no pod",
		l.clean, l.total(), time.Since(u.begun).Round(time.Second), taken, made-taken, len(l.left)-made)
}

// whyNone returns why there is no pod, if the DaemonSet's controller has reported a reason.
func (u *unloader) whyNone(ctx context.Context) (why string) {
	s := kube.Selection{Namespace: u.o.Namespace, Fields: "reason=FailedCreate,involvedObject.uid=" + u.uid}
	events, _ := readAll[struct{ Message string }](ctx, u.Client, typeOf("v1", "Event"), s)
	for _, e := range events {
		why = clean(e.Message)
	}
	return why
}

// report names the nodes that are not clean, and what to do about them.
func (u *unloader) report(l *looks, done *Unloaded) {
	for _, name := range l.left {
		r := NodeResult{Node: name, Result: NotInTime, Says: cmp.Or(l.none, "no pod was made for it")}
		if s := l.at[name]; s != nil {
			r.Says = s.message
			if s.failed {
				r.Result = Failed
			}
		}
		if l.err != nil {
			r.Says = clean(l.err.Error())
		}
		u.say("node %s: %s: %s", clean(name), r.Result, r.Says)
		done.Nodes = append(done.Nodes, r)
	}
	if len(l.left) > 0 {
		how, also := "--image "+cmp.Or(u.template.text("image"), "IMAGE"), []string(nil)
		if len(u.o.Template) > 0 {
			how = "--template FILE"
			also = []string{"FILE is this run's template: of a Job of ebb's, pod.yaml of the ConfigMap " + ofJob + ", which must exist"}
		}
		done.Later = append([]string{
			fmt.Sprintf("ebb uninstall unload --namespace %s %s --node %s", u.o.Namespace, how, strings.Join(l.left, ",")),
			"or, on each of these nodes, as root: ebb-agent unload (with the --config that the agent had)",
			"or, if they do not come back, delete the Nodes: ebb has left nothing else",
		}, also...)
	}
}

// pauseFor waits between two reads, longer for more objects, but at most 15 seconds. It returns
// false if ctx ends.
func pauseFor(ctx context.Context, n int) bool {
	return wait.Sleep(ctx, min(time.Second+time.Duration(n)*10*time.Millisecond, 15*time.Second))
}
