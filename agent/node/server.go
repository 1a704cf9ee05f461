package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/program"
)

const (
	// answerWait is how long a request waits for the loop, which may be in the
	// middle of a removal.
	answerWait = 5 * time.Second
	// deadAfter is how long the loop may show no sign of life. A single call to
	// the runtime is bounded well below it (a removal: two minutes).
	deadAfter = 5 * time.Minute
)

// serve answers /metrics, /healthz, /readyz, /images, /containers, /writers and /heat
// until ctx is done. All are read-only.
func (a *Agent) serve(ctx context.Context) error {
	listener, err := net.Listen("tcp", a.cfg.Server.Address)
	if err != nil {
		return fmt.Errorf("server.address: %w", err)
	}
	a.log.Info("serving", "address", listener.Addr().String(), "reason", "start")
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", program.Metrics(a.metrics.Registry))
	mux.HandleFunc("GET /healthz", a.healthz)
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("GET /images", a.images)
	mux.HandleFunc("GET /containers", a.whatIsDead)
	mux.HandleFunc("GET /writers", a.whoWrites)
	mux.HandleFunc("GET /heat", a.whatIsRead)
	return program.Serve(ctx, listener, mux)
}

// healthz is whether the process should live on: the loop has moved lately, or
// answers when asked.
func (a *Agent) healthz(w http.ResponseWriter, r *http.Request) {
	_, err := a.ask(r.Context())
	quiet := a.boot() - time.Duration(a.beat.Load())
	if err != nil && quiet > deadAfter {
		http.Error(w, fmt.Sprintf("the agent's loop has not moved for %s", quiet.Round(time.Second)), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// readyz is whether the agent does its job; what is missing is said, and that it only
// observes.
func (a *Agent) readyz(w http.ResponseWriter, r *http.Request) {
	problems := a.notReady.Load()
	if problems == nil {
		text := "ok"
		if a.cfg.Mode == config.ModeObserve {
			text += " (observe: nothing is removed until mode is enforce)"
		}
		fmt.Fprintln(w, text)
		return
	}
	http.Error(w, *problems, http.StatusServiceUnavailable)
}

// images is the last decision, image by image.
func (a *Agent) images(w http.ResponseWriter, r *http.Request) {
	e, err := a.ask(r.Context())
	a.reply(w, e, err)
}

// whatIsDead is the last decision on containers, sandboxes and logs.
func (a *Agent) whatIsDead(w http.ResponseWriter, r *http.Request) {
	e, err := a.askContainers(r.Context())
	a.reply(w, e, err)
}

func (a *Agent) reply(w http.ResponseWriter, e any, err error) {
	if err != nil {
		http.Error(w, "the agent is busy; try again", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(e); err != nil {
		a.log.Debug("answer a request", "error", err) // the client went away
	}
}

var errBusy = errors.New("the loop is busy")

// ask puts a question to the loop.
func (a *Agent) ask(ctx context.Context) (Explanation, error) {
	q := question{reply: make(chan Explanation, 1)}
	return answerTo(ctx, a, q, q.reply)
}

// askContainers does so about containers.
func (a *Agent) askContainers(ctx context.Context) (ContainersExplanation, error) {
	q := question{containers: make(chan ContainersExplanation, 1)}
	return answerTo(ctx, a, q, q.containers)
}

func answerTo[T any](ctx context.Context, a *Agent, q question, reply <-chan T) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	select {
	case a.questions <- q:
		return <-reply, nil
	case <-ctx.Done():
		var none T
		return none, errBusy
	}
}
