package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/gc"
)

const (
	// answerWait is how long a request waits for the loop.
	answerWait = 5 * time.Second
	// deadAfter is how long the loop may be waited for. Each of its steps takes
	// milliseconds.
	deadAfter = time.Minute
	// longestName bounds a name in a request, in bytes. An object's name has at most 253.
	longestName = 512
)

// server is the HTTP server for people and probes.
type server struct {
	config.Server
	status atomic.Pointer[status]
}

// Serve serves people and probes until ctx ends, whether this instance leads or not. Requests that
// change something are served on the unix socket alone.
func (c *Controller) Serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	server := c.server.Server
	if err := program.CheckWebConfig(server.WebConfigFile); err != nil {
		return fmt.Errorf("server.webConfigFile: %w", err)
	}
	if server.Address != "" {
		listener, err := net.Listen("tcp", server.Address)
		if err != nil {
			return fmt.Errorf("server.address: %w", err)
		}
		c.log.Info("serving", "address", listener.Addr().String(), "webConfigFile", server.WebConfigFile, "reason", "start")
		group.Go(func() error {
			return program.ServeProtected(ctx, listener, c.probeHandler(), server.WebConfigFile, c.log)
		})
	}
	if server.HealthAddress != "" {
		listener, err := net.Listen("tcp", server.HealthAddress)
		if err != nil {
			return fmt.Errorf("server.healthAddress: %w", err)
		}
		c.log.Info("serving health", "address", listener.Addr().String(), "reason", "start")
		mux := http.NewServeMux()
		c.addHealth(mux)
		group.Go(func() error { return program.Serve(ctx, listener, mux) })
	}
	if server.AdminSocket != "" {
		listener, err := program.ListenPrivately(server.AdminSocket)
		if err != nil {
			return fmt.Errorf("server.adminSocket: %w", err)
		}
		group.Go(func() error { return program.Serve(ctx, listener, c.adminHandler()) })
	}
	return group.Wait()
}

// adminHandler returns what the admin socket serves: everything.
func (c *Controller) adminHandler() *http.ServeMux {
	mux := c.probeHandler()
	c.addPeople(mux)
	mux.HandleFunc("POST /control/pause", c.servePause)
	mux.HandleFunc("POST /control/resume", c.serveResume)
	mux.HandleFunc("POST /control/confirm-restore", c.serveConfirmRestore)
	mux.HandleFunc("POST /control/confirm-lost", c.serveConfirmLost)
	return mux
}

// probeHandler returns what an address serves: nothing that names objects, because callers may have
// no right to read them.
func (c *Controller) probeHandler() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", program.Metrics(c.metrics.Registry))
	c.addHealth(mux)
	return mux
}

func (c *Controller) addHealth(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", c.healthz)
	mux.HandleFunc("GET /readyz", c.readyz)
}

// addPeople adds the requests of people, which change nothing.
func (c *Controller) addPeople(mux *http.ServeMux) {
	mux.HandleFunc("GET /explain", c.serveExplain)
	mux.HandleFunc("GET /decisions", func(w http.ResponseWriter, _ *http.Request) { c.replyJSON(w, c.Decisions(), nil) })
	mux.HandleFunc("GET /cascades", func(w http.ResponseWriter, r *http.Request) {
		list, err := c.Cascades(r.Context())
		c.replyJSON(w, list, err)
	})
	mux.HandleFunc("GET /collectors", c.serveCollectors)
	mux.HandleFunc("GET /lost-nodes", func(w http.ResponseWriter, r *http.Request) {
		list, err := c.LostNodes(r.Context())
		c.replyJSON(w, list, err)
	})
	mux.HandleFunc("GET /types", func(w http.ResponseWriter, r *http.Request) {
		list, err := c.Types(r.Context())
		c.replyJSON(w, list, err)
	})
}

// healthz reports whether the process should keep running. It waits for nothing.
func (c *Controller) healthz(w http.ResponseWriter, _ *http.Request) {
	if c.loop.leads.Load() {
		if quiet := c.loop.quiet(); quiet > deadAfter {
			http.Error(w, fmt.Sprintf("the main loop has been stuck for %s", quiet.Round(time.Second)), http.StatusServiceUnavailable)
			return
		}
	}
	fmt.Fprintln(w, "ok")
}

// readyz reports whether this instance does its job or, as a standby, could take over at once. It
// lists types that cannot be read; they do not make the instance unready.
func (c *Controller) readyz(w http.ResponseWriter, r *http.Request) {
	state := c.gate.Status()
	if state != "" {
		state = " (" + state + ")"
	}
	if !c.loop.leads.Load() {
		fmt.Fprintln(w, "ok: waiting for the lease"+state)
		return
	}
	st := c.server.status.Load()
	code, text := http.StatusOK, "ok"
	if st.problem != "" {
		code, text = http.StatusServiceUnavailable, "not ready: "+st.problem
	}
	text += state
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
	if st.discovery != "" {
		fmt.Fprintln(w, "types cannot be discovered:", st.discovery)
	}
	c.writeDeferred(w, r)
	if st.uncertain != "" {
		fmt.Fprintln(w, "cannot list APIServices: types not known to be built in are treated as aggregated:", st.uncertain)
	}
	_, verbose := r.URL.Query()["verbose"]
	list, err := c.Types(r.Context())
	if err != nil {
		return
	}
	for _, t := range list {
		if verbose && t.State != stateReferred || t.State == stateUnreadable || t.State == stateListing || t.Alone > 0 {
			fmt.Fprintf(w, "%s %s: %s since %s, %d objects%s %s\n", t.Type, t.APIVersion, t.State, t.Since.Format(time.RFC3339), t.Objects, t.doubts(), t.Why)
		}
	}
}

// writeDeferred writes how many cascades are slowed and how many deletions are deferred. It names
// no objects.
func (c *Controller) writeDeferred(w http.ResponseWriter, r *http.Request) {
	roots, deferred := 0, 0
	if c.loop.query(r.Context(), func(time.Time) { roots, deferred = c.owners.Slowed() }) == nil && roots+deferred > 0 {
		fmt.Fprintf(w, "%d cascades are slowed, %d deletions are put off: see ebb control cascades\n", roots, deferred)
	}
}

func (c *Controller) serveExplain(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	for name, values := range q {
		if len(values) != 1 || len(values[0]) > longestName {
			http.Error(w, fmt.Sprintf("%.20q: want one value of at most %d bytes", name, longestName), http.StatusBadRequest)
			return
		}
	}
	o := gc.Coordinates{
		APIVersion: q.Get("apiVersion"), Kind: q.Get("kind"), Namespace: q.Get("namespace"), Name: q.Get("name"), UID: q.Get("uid"),
	}
	if o.APIVersion == "" || o.Kind == "" || o.Name == "" {
		http.Error(w, "want apiVersion, kind and name; namespace where there is one; uid, if the object may be another by now", http.StatusBadRequest)
		return
	}
	x, err := c.Explain(r.Context(), o)
	c.replyJSON(w, x, err)
}

func (c *Controller) replyJSON(w http.ResponseWriter, v any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		c.log.Debug("answer a request", "error", err) // the client went away
	}
}

func (c *Controller) servePause(w http.ResponseWriter, r *http.Request) {
	if left := c.Pause(r.Context()); left > 0 {
		fmt.Fprintf(w, "paused; %d requests that were sent before have no answer yet\n", left)
	} else {
		fmt.Fprintln(w, "paused; nothing is on its way")
	}
	c.replySaved(w, r)
}

func (c *Controller) serveResume(w http.ResponseWriter, r *http.Request) {
	if still := c.Resume(r.Context()); still != "" {
		http.Error(w, "not resumed: "+still, http.StatusConflict)
		return
	}
	fmt.Fprintln(w, "resumed")
	if waiting := c.gate.AwaitingConfirmation(); waiting != "" {
		fmt.Fprintln(w, waiting, "still wait: etcd was restored, ebb control confirm-restore ends that")
	}
	c.replySaved(w, r)
}

func (c *Controller) serveConfirmRestore(w http.ResponseWriter, r *http.Request) {
	if c.ConfirmRestore(r.Context()) {
		fmt.Fprintln(w, "confirmed: collectors no longer wait")
	} else {
		fmt.Fprintln(w, "there was nothing to confirm: it is not known that etcd was restored")
	}
	c.replySaved(w, r)
}

// replySaved saves the state of the gate after a switch, and warns if a restart would lose it.
func (c *Controller) replySaved(w http.ResponseWriter, r *http.Request) {
	if !c.loop.leads.Load() {
		fmt.Fprintln(w, "this instance does not lead; the one that does is another one's to ask")
		return
	}
	if err := c.gate.Save(r.Context()); err != nil {
		fmt.Fprintln(w, "not written down yet, so that a restart would not know of it:", err)
	}
}
