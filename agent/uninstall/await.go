package uninstall

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/runtime/wait"
)

const (
	// podsPerSecond are made by a kube-controller-manager with its defaults.
	podsPerSecond = 20
	// progressEach is how often progress is printed although nothing has changed.
	progressEach = 30 * time.Second
)

// looks is what was seen of the nodes that are left.
type looks struct {
	left []string
	seen map[string]time.Time // pods, when they were first
	at   map[string]*status   // nodes
	none string               // why there is no pod
	err  error                // of the last look

	clean        int // nodes, with those that were clean before
	printed      time.Time
	printedClean int
}

// total is how many nodes are to be clean.
func (l *looks) total() int { return l.clean + len(l.left) }

// await looks at all pods until each node is clean, or the time is up, or none that is
// not can be expected to become so.
func (u *unloader) await(ctx context.Context, left []string, done *Unloaded) error {
	l := &looks{left: left, seen: map[string]time.Time{}, clean: done.Clean, printed: u.begun, printedClean: -1}
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

// look reads all pods with one list, and which nodes there still are.
func (u *unloader) look(ctx context.Context, l *looks) {
	var pods []pod
	pods, l.err = readAll[pod](ctx, u.Client, podType, kube.Selection{Namespace: u.o.Namespace, Labels: runLabel + "=" + u.run})
	l.at = make(map[string]*status, len(pods))
	for i := range pods {
		if name := pods[i].Metadata.Name; l.seen[name].IsZero() {
			l.seen[name] = time.Now()
		}
		l.at[pods[i].node()] = pods[i].status(u.template.text("name"))
	}
	if l.none = ""; len(pods) == 0 && l.err == nil {
		l.none = u.whyNone(ctx)
	}
	if time.Since(u.begun) > patience { // some may have gone, or come back
		now, err := u.nodes(ctx, u.selection())
		switch {
		case err != nil:
		case len(u.o.Nodes) == 0:
			l.left = u.unknown(now)
		default:
			l.left = slices.DeleteFunc(l.left, func(name string) bool { return !slices.Contains(now, name) })
		}
	}
}

// judge takes out the nodes that are clean, and says whether others can be expected to become so.
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

// count prints progress: of many nodes whenever that changes, of few, which are printed one by
// one, only if it takes long.
func (u *unloader) count(l *looks) {
	if (l.total() <= mostNamed || l.clean == l.printedClean) && time.Since(l.printed) < progressEach {
		return
	}
	l.printed, l.printedClean = time.Now(), l.clean
	if l.err != nil {
		u.say("%d of %d nodes were clean when the pods could be read last: %s", l.clean, l.total(), clean(l.err.Error()))
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
	u.say("%d of %d nodes are clean after %s; of the others, %d have begun, %d have a pod that their kubelet has not taken, %d have none",
		l.clean, l.total(), time.Since(u.begun).Round(time.Second), taken, made-taken, len(l.left)-made)
}

// whyNone is why there is no pod, if the DaemonSet's controller has reported it.
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
			r.Says = s.says
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
		done.Later = []string{
			fmt.Sprintf("ebb uninstall unload --namespace %s --image %s --node %s", u.o.Namespace, cmp.Or(u.template.text("image"), "IMAGE"), strings.Join(l.left, ",")),
			"or, on each of these nodes, as root: ebb-agent unload (with the --config that the agent had)",
			"or, if they are gone for good, delete the Nodes: ebb has left nothing else",
		}
	}
}

// pauseFor is longer the more there is to look at.
func pauseFor(ctx context.Context, n int) bool {
	return wait.Sleep(ctx, min(time.Second+time.Duration(n)*10*time.Millisecond, 15*time.Second))
}
