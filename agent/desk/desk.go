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

// DefaultNamespace is where the chart puts ebb.
const DefaultNamespace = "ebb-system"

// Options say which agents are meant, and how they are reached.
type Options struct {
	Config    *rest.Config // of the API server; nil with Socket
	Namespace string       // of the agents' pods; without it DefaultNamespace
	Nodes     []string     // those alone; without it all
	Socket    string       // path of the agent's socket on this node: nobody else is asked
	Version   string       // of this command
}

// Desk finds agents and reaches them. It is safe for concurrent use.
type Desk struct {
	o      Options
	api    *kube.Client // nil: by the socket of this node
	server *url.URL     // with a path if there is one
	caller caller
}

// caller is who asks, once that is known.
type caller struct {
	turn  chan struct{} // of who may look at the rest
	asked bool
	name  string
	err   error
}

// New makes a desk, which asks nothing yet. The caller must Close it.
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

// Close drops connections to the API server that are not used.
func (d *Desk) Close() {
	if d.api != nil {
		d.api.Close()
	}
}

// Caller says who asks: the user that the API server takes them for, or on a node the user
// of this process. It is asked for once.
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
	if ctx.Err() == nil { // else the next one asks again
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
