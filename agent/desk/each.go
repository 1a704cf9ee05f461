package desk

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// InFlight is the default number of agents that are asked at the same time.
const InFlight = 100

// Result is the outcome for one agent.
type Result[T any] struct {
	Agent Agent
	Value T
	Err   error // not nil: Value is unknown
}

// Each calls ask for each agent: at most inFlight calls at the same time, and each for perNode at
// most. It returns the results in the order of agents. The client of an agent is closed when its
// call of ask returns.
func Each[T any](ctx context.Context, agents []Agent, inFlight int, perNode time.Duration, ask func(context.Context, *Client) (T, error)) []Result[T] {
	results := make([]Result[T], len(agents))
	var group errgroup.Group
	group.SetLimit(max(inFlight, 1))
	for i, a := range agents {
		results[i].Agent = a
		if ctx.Err() != nil {
			results[i].Err = ctx.Err()
			continue
		}
		group.Go(func() error {
			results[i].Value, results[i].Err = one(ctx, a, perNode, ask)
			return nil
		})
	}
	_ = group.Wait() // no call returns an error
	return results
}

func one[T any](ctx context.Context, a Agent, perNode time.Duration, ask func(context.Context, *Client) (T, error)) (value T, err error) {
	limited, cancel := context.WithTimeout(ctx, perNode)
	defer cancel()
	c := a.Client(limited)
	defer c.Close()
	value, err = ask(limited, c)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = failed(err, "no answer within %s", perNode)
	}
	return value, err
}
