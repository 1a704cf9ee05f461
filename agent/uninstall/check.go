package uninstall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// CheckOptions say what will be uninstalled, and what may be left as it is.
type CheckOptions struct {
	Config     *rest.Config
	Agent      bool // ebb-agent will be uninstalled: check the kubelets
	Controller bool // ebb-controller will be uninstalled: look for objects that wait for a collector

	OtherCollector  bool     // another garbage collector runs
	LeaveFinalizers bool     // objects may wait forever
	LeaveImageGC    bool     // kubelets may be left without image garbage collection
	LeaveNodes      []string // accept the kubelets of these nodes: handed over, or unknown
	LeaveTypes      []string // RESOURCE.GROUP or GROUP/VERSION: not read
	Types           []string // RESOURCE.GROUP: only these are read; empty: all

	Wait time.Duration // how long ebb-controller may take to finish deletions that have begun

	// KubeletAccount, NAMESPACE/NAME, is the service account with whose token the kubelets are
	// asked. With KubeletProxy, they are asked through the API server instead.
	KubeletAccount string
	KubeletProxy   bool

	Progress io.Writer // nil: progress is not written
}

// KubeletAccount is the service account that the manifests make.
const KubeletAccount = "ebb-system/ebb-uninstall-kubelets"

// Refusal is a reason not to uninstall.
type Refusal struct {
	ID    string   `json:"id"`    // stable: finalizers, types, collector, image-gc, nodes
	What  string   `json:"what"`  // what was found
	Found []string `json:"found"` // the first mostNamed of these
	Total int      `json:"total"` // how many there are
	Why   string   `json:"why"`
	Fix   []string `json:"fix"`   // alternatives: one of them is enough
	Leave []string `json:"leave"` // flags that accept the finding as it is
}

// Verdict is what Check found.
type Verdict struct {
	Format   int       `json:"format"` // 1
	MayGo    bool      `json:"mayGo"`
	Refusals []Refusal `json:"refusals"`
	Notes    []string  `json:"notes"`
	Types    int       `json:"types"`   // types that were read
	Objects  int       `json:"objects"` // objects of these types
	Nodes    int       `json:"nodes"`   // nodes whose kubelets were asked
}

// mostNamed bounds how many of a kind are named.
const mostNamed = 20

// Check finds out whether ebb may be uninstalled. An error means that the check itself failed.
func Check(ctx context.Context, o CheckOptions) (Verdict, error) {
	v := Verdict{Format: 1, Refusals: []Refusal{}, Notes: []string{}}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	c, err := kube.New(o.Config, kube.Options{})
	if err != nil {
		return v, err
	}
	defer c.Close()
	if o.Controller {
		if err := v.checkObjects(ctx, c, o); err != nil {
			return v, err
		}
	}
	if o.Agent {
		if err := v.checkKubelets(ctx, c, o); err != nil {
			return v, err
		}
	}
	v.MayGo = len(v.Refusals) == 0
	return v, ctx.Err()
}

// refuse adds a refusal if found is not empty. It sorts found.
func (v *Verdict) refuse(r Refusal, found []string) {
	if r.Total = len(found); r.Total > 0 {
		slices.Sort(found)
		for _, f := range found[:min(r.Total, mostNamed)] {
			r.Found = append(r.Found, clean(f))
		}
		v.Refusals = append(v.Refusals, r)
	}
}

func (v *Verdict) note(format string, args ...any) {
	v.Notes = append(v.Notes, fmt.Sprintf(format, args...))
}

// checkObjects looks for objects that wait for a garbage collector.
func (v *Verdict) checkObjects(ctx context.Context, c *kube.Client, o CheckOptions) error {
	switch {
	case o.OtherCollector:
		v.note("another garbage collector runs (--other-collector): objects being deleted were not checked")
		return nil
	case o.LeaveFinalizers:
		v.note("objects being deleted were not checked (--leave-finalizers)")
		return nil
	}
	s, err := scanAll(ctx, c, o)
	if err != nil {
		return err
	}
	v.Types, v.Objects = s.types, s.objects
	v.refuse(Refusal{
		ID:   "finalizers",
		What: "objects that are being deleted and wait for a garbage collector",
		Why:  "without one they stay forever: only a garbage collector removes the finalizers orphan and foregroundDeletion",
		Fix: []string{
			"wait until ebb-controller has finished them (docs/cascade.md, \"When something holds\"), and try again",
			"let the kube-controller-manager collect again (without -garbage-collector-controller in its --controllers), then use --other-collector",
		},
		Leave: []string{"--leave-finalizers"},
	}, slices.Concat(slices.Collect(maps.Values(s.waiting))...))
	unread := make(map[string]string, len(s.unread))
	for name, err := range s.unread {
		if unread[name] = err.Error(); errors.Is(err, kube.ErrForbidden) {
			unread[name] = "not allowed to list"
		}
	}
	v.refuse(Refusal{
		ID:    "types",
		What:  "types that could not be read",
		Why:   "objects of these types may wait for a garbage collector, too",
		Fix:   []string{"allow this command to list them, or repair the API server that serves them, and try again", "--other-collector, if another garbage collector runs"},
		Leave: []string{leaveEach("--leave-type", unread)},
	}, lines(unread))
	v.checkCollector(ctx, c)
	return nil
}

// checkCollector looks for another garbage collector. Without any, dependents are not deleted any
// more when their owner is.
func (v *Verdict) checkCollector(ctx context.Context, c *kube.Client) {
	const what = "without one, dependents of deleted owners stay: a deleted Deployment leaves its pods"
	on, off, _ := Managers(ctx, c)
	switch {
	case len(on) == 0 && len(off) > 0:
		v.refuse(Refusal{
			ID:    "collector",
			What:  "kube-controller-managers that do not collect garbage",
			Why:   what,
			Fix:   []string{"let the kube-controller-manager collect again: without -garbage-collector-controller in its --controllers", "--other-collector, if another one runs"},
			Leave: []string{"--leave-finalizers"},
		}, off)
	case len(on) > 0:
		v.note("these run a garbage collector, by their arguments: %s", clean(strings.Join(on, ", ")))
	default:
		v.note("ebb cannot detect another garbage collector from here; %s. "+
			"The kube-controller-manager has one unless its --controllers contains -garbage-collector-controller", what)
	}
}

// leaveEach returns a flag with the names, at most mostNamed of them. If there are more, it is
// better to fix them.
func leaveEach(flag string, why map[string]string) string {
	names := slices.Sorted(maps.Keys(why))
	for i := range names {
		names[i] = clean(names[i])
	}
	if len(names) > mostNamed {
		names = append(names[:mostNamed], "…")
	}
	return flag + " " + strings.Join(names, ",")
}

func lines(why map[string]string) (all []string) {
	for name, reason := range why {
		all = append(all, name+": "+reason)
	}
	return all
}
