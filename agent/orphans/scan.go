package orphans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/ebb-agent/ebb/agent/preview"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/orphans"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// Options say which cluster to scan, and for what.
type Options struct {
	Config *rest.Config
	Rules  orphans.Config
	// Kubectl are the arguments that kubectl needs to reach the same cluster.
	Kubectl []string
	// Progress, if not nil, is called after each list, from one goroutine at a time.
	Progress func(listed, types, objects int)
}

const (
	maxAsked    = 2000 // live reads of owners
	maxLooked   = 500  // reads of namespaces, and of findings that may have passed
	releaseType = "type=helm.sh/release.v1"
)

// Scan reads the API server and reports.
func Scan(ctx context.Context, o Options) (Report, error) {
	client, err := metadata.New(o.Config, metadata.Options{})
	if err != nil {
		return Report{}, err
	}
	defer client.Close()
	served, err := client.Discover(ctx)
	if err != nil {
		return Report{}, err
	}
	c := &cluster{client: client, options: o, look: orphans.New(o.Rules), lacks: make(map[string]string)}
	partial := make(map[string]string)
	for version, why := range served.Partial {
		partial[version] = why.Error()
		c.lack(version, why)
	}
	c.look.Types(served.Types, partial)
	c.read(ctx, served.Types)
	c.releases(ctx, served.Types)
	c.apiServices(ctx)
	c.webhooks(ctx)
	c.owners(ctx)
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	now, ok := client.Time(time.Now())
	if !ok {
		return Report{}, errors.New("the API server's answers have no Date: the age of deletions cannot be computed")
	}
	c.namespaces(ctx, now)
	findings := c.lasting(ctx, c.look.Findings(now))
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	return c.report(now, findings), nil
}

// cluster is the state of a scan.
type cluster struct {
	client  *metadata.Client
	options Options

	mu     sync.Mutex
	look   *orphans.Inspection
	lacks  map[string]string // what was not read → why
	listed int
}

func (c *cluster) lack(name string, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lacks[name] == "" {
		c.lacks[name] = reason(why)
	}
}

// reason returns why something cannot be read. A user who may not read one type usually may not
// read many; all of them get the same sentence.
func reason(err error) string {
	if errors.Is(err, metadata.ErrForbidden) {
		return "you are not allowed to read it"
	}
	return err.Error()
}

// read lists all types at once; the client bounds how many at a time.
func (c *cluster) read(ctx context.Context, types []gc.Type) {
	types = slices.DeleteFunc(slices.Clone(types), func(t gc.Type) bool { return t.Unwatched })
	var all sync.WaitGroup
	for _, t := range types {
		all.Go(func() {
			begin := func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.look.Listing(t)
			}
			err := c.client.List(ctx, t, metadata.Selection{Namespace: c.options.Rules.Namespace}, begin, func(o metadata.ListedObject) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.look.Observe(o.Object, o.Deleted)
			})
			c.mu.Lock()
			defer c.mu.Unlock()
			if err != nil {
				c.look.Unreadable(t, reason(err))
				c.lacks[preview.TypeName(t.APIVersion, t.Resource)] = reason(err)
				return
			}
			c.look.Synced(t)
			if c.listed++; c.options.Progress != nil {
				c.options.Progress(c.listed, len(types), c.look.Objects())
			}
		})
	}
	all.Wait()
}

// releases reads the labels of Helm's release Secrets.
func (c *cluster) releases(ctx context.Context, types []gc.Type) {
	for _, t := range types {
		if t.APIVersion != "v1" || t.Resource != "secrets" {
			continue
		}
		selection := metadata.Selection{Namespace: c.options.Rules.Namespace, Fields: releaseType, Labels: "owner=helm"}
		err := c.client.List(ctx, t, selection, c.look.ForgetReleases, func(o metadata.ListedObject) { c.look.Release(o.Object, o.Labels) })
		if err != nil {
			c.look.ForgetReleases() // half a history would name the wrong ones
			c.lack(preview.TypeName(t.APIVersion, t.Resource), err)
		}
	}
}

// owners reads the owners live that were in no list.
func (c *cluster) owners(ctx context.Context) {
	asked := 0
	for ctx.Err() == nil {
		questions := c.look.Questions()
		if len(questions) == 0 {
			break
		}
		preview.Each(len(questions), func(i int) {
			q := questions[i]
			answer, why := gc.Answer{}, fmt.Sprintf("it was not read, because more than %d owners were in no list", maxAsked)
			if asked+i < maxAsked && ctx.Err() == nil {
				var err error
				if answer, err = c.client.Read(ctx, q.Object, q.Namespaced); err != nil {
					why = reason(err)
				}
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.look.Answer(q.ID, answer, why)
		})
		asked += len(questions)
	}
	if asked > maxAsked {
		c.lack("owners", fmt.Errorf("%d that were in no list were not read", asked-maxAsked))
	}
}

// lasting drops findings that a garbage collector has resolved since they were read.
func (c *cluster) lasting(ctx context.Context, all []orphans.Finding) []orphans.Finding {
	passed := make([]bool, len(all))
	var doubtful []int
	for i := range all {
		if all[i].Passes() && len(doubtful) < maxLooked {
			doubtful = append(doubtful, i)
		}
	}
	preview.Each(len(doubtful), func(i int) {
		o := all[doubtful[i]].Object
		answer, err := c.client.Read(ctx, o, o.Namespace != "")
		passed[doubtful[i]] = err == nil && (answer.State == gc.Absent || answer.State == gc.Exists && (answer.Object.UID != o.UID || answer.Object.Terminating))
	})
	kept := all[:0]
	for i, f := range all {
		if !passed[i] {
			kept = append(kept, f)
		}
	}
	return kept
}
