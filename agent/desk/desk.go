package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/user"

	"k8s.io/client-go/rest"

	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// DefaultNamespace is the namespace of ebb in the chart.
const DefaultNamespace = "ebb-system"

// Options say which agents to reach, and how.
type Options struct {
	Config    *rest.Config // of the API server; nil with Socket
	Namespace string       // of the agents' pods; empty: DefaultNamespace
	Nodes     []string     // only these; empty: all
	Socket    string       // path of the agent's socket on this node; only that agent is asked
	Version   string       // of this command
}

// Desk finds agents and reaches them. It is safe for concurrent use.
type Desk struct {
	o      Options
	api    *kube.Client // nil: the socket of this node is used
	server *url.URL     // of the API server, with its path if it has one
	caller caller
}

// caller caches the name of the user, or why it is unknown.
type caller struct {
	turn  chan struct{} // one slot; its holder may use the other fields
	asked bool
	name  string
	err   error
}

// New makes a desk. It sends no request yet. The caller must call [Desk.Close].
func New(o Options) (*Desk, error) {
	d := &Desk{o: o, caller: caller{turn: make(chan struct{}, 1)}}
	d.o.Namespace = cmp.Or(o.Namespace, DefaultNamespace)
	if o.Socket != "" {
		if len(o.Nodes) > 0 {
			return nil, errors.New("give nodes or a socket: a socket reaches one node's agent")
		}
		return d, nil
	}
	d.o.Config = rest.CopyConfig(o.Config)
	d.o.Config.UserAgent = cmp.Or(o.Config.UserAgent, "ebb/"+o.Version)
	var err error
	if d.server, _, err = rest.DefaultServerUrlFor(d.o.Config); err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	d.api, err = kube.New(d.o.Config, kube.Options{})
	return d, err
}

// Close closes idle connections to the API server.
func (d *Desk) Close() {
	if d.api != nil {
		d.api.Close()
	}
}

// Caller returns the name of the user: as the API server knows it or, on a node, the user of this
// process. The first result is kept, unless ctx ended before it.
func (d *Desk) Caller(ctx context.Context) (string, error) {
	c := &d.caller
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if c.asked {
		return c.name, c.err
	}
	name, err := d.whoAmI(ctx)
	if ctx.Err() == nil { // otherwise the next call asks again
		c.asked, c.name, c.err = true, name, err
	}
	return name, err
}

func (d *Desk) whoAmI(ctx context.Context) (string, error) {
	if d.api == nil {
		me, err := user.Current()
		if err != nil {
			return fmt.Sprintf("uid %d", os.Getuid()), nil
		}
		return fmt.Sprintf("uid %s (%s)", me.Uid, me.Username), nil
	}
	var review struct {
		Status struct{ UserInfo struct{ Username string } }
	}
	ask := map[string]string{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
	if err := d.api.Send(ctx, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", nil, ask, &review); err != nil {
		return "", fmt.Errorf("ask the API server who you are: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}
