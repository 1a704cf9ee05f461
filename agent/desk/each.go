package desk

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// InFlight is how many agents are asked at the same time unless somebody says otherwise.
const InFlight = 100

// Result is what became of one agent.
type Result[T any] struct {
	Agent Agent
	Value T
	Err   error // Value is not known
}

// Each asks agents, so many at a time and each for so long, and returns the results in
// their order. The client of an agent ends with its call of ask.
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
