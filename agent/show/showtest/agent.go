package showtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// Agent serves the pages of this package. Set its fields before the first request.
type Agent struct {
	Status page.Status
	Plan   page.Plan
	Next   []page.Plan // each POST /reclaim first makes the next of these the Plan
	Events string      // the answer to POST /reclaim; "": the events of carrying out Plan
	Cut    bool        // the connection breaks after the events, before the answer ends
	Busy   string      // why POST /reclaim is refused; "": it is not
	Broken string      // path of requests that fail; "": none
	Tame   bool        // no hostile names: for examples in the documentation

	mu    sync.Mutex
	asked []string
	looks uint64
}

// NewAgent returns the agent of a healthy node.
func NewAgent() *Agent { return &Agent{Status: Status(), Plan: Plan()} }

// Asked returns the requests so far: method, URL and body.
func (a *Agent) Asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// Serve answers on a socket until the test ends. It returns the path of the socket.
func (a *Agent) Serve(t testing.TB) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "agent.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: a.handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
	return socket
}

func (a *Agent) handler() http.Handler {
	mux := http.NewServeMux()
	get := func(path string, page func(*http.Request) any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { a.answer(w, page(r)) })
	}
	get("GET /status", a.status)
	get("GET /images", func(*http.Request) any { return Images() })
	get("GET /du", func(*http.Request) any { return Usage() })
	get("GET /writers", func(*http.Request) any { return a.writers() })
	get("GET /history", history)
	get("POST /plan", func(*http.Request) any { return a.Plan })
	get("POST /resume", func(*http.Request) any { return page.Resume{WasPaused: true} })
	get("POST /pause", func(r *http.Request) any {
		var q page.PauseRequest
		_ = json.NewDecoder(r.Body).Decode(&q) // no body: the zero request
		return page.Pause{Since: Now, Until: Now.Add(time.Duration(q.ForSeconds) * time.Second), By: "tester", Reason: q.Reason}
	})
	mux.HandleFunc("GET /why", a.why)
	mux.HandleFunc("POST /reclaim", a.reclaim)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.asked = append(a.asked, fmt.Sprint(r.Method, " ", r.URL, " ", string(body)))
		a.mu.Unlock()
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if r.URL.Path == a.Broken {
			answer(w, http.StatusServiceUnavailable, page.Error{Error: "it is broken"})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (a *Agent) status(*http.Request) any {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.Status
}

// Become replaces the status.
func (a *Agent) Become(s page.Status) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Status = s
}

// writers returns the writers, each time two seconds later than before.
func (a *Agent) writers() any {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looks++
	return Writers(Now.Add(time.Duration(a.looks)*2*time.Second), a.looks*4*mi)
}

func (a *Agent) answer(w http.ResponseWriter, with any) {
	if a.Tame {
		data, _ := json.Marshal(with)
		_ = json.Unmarshal(data, &with)
		with = tame(with)
	}
	answer(w, http.StatusOK, with)
}

// tame removes everything with the ID of [Strange], Evil from all other texts, and list entries
// whose text after the colon was Evil.
func tame(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, strings.ToValidUTF8(Evil, "\uFFFD"), "")
	case map[string]any:
		for k, one := range v {
			v[k] = tame(one)
		}
	case []any:
		list := []any{}
		for _, one := range v {
			if fields, ok := one.(map[string]any); ok && strings.HasPrefix(fmt.Sprint(fields["id"]), "sha256:f00d") {
				continue
			}
			if one = tame(one); !strings.HasSuffix(fmt.Sprint(one), ": ") { // the rest was Evil
				list = append(list, one)
			}
		}
		return list
	}
	return v
}

func answer(w http.ResponseWriter, code int, with any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(with)
}

// why finds images by a part of their references, or by the beginning of their ID. More than one
// match is an error.
func (a *Agent) why(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("image")
	var found []page.Image
	for _, i := range Images().Images {
		if strings.HasPrefix(i.ID, "sha256:"+strings.TrimPrefix(name, "sha256:")) || strings.Contains(strings.Join(i.References, " "), name) {
			found = append(found, i)
		}
	}
	switch len(found) {
	case 0:
		answer(w, http.StatusNotFound, page.Error{Error: "no image of that name is here"})
	case 1:
		a.answer(w, Why(found[0]))
	default:
		answer(w, http.StatusConflict, page.Error{Error: fmt.Sprintf("%q is the name of %d images; ask for one of them: %s", name, len(found), found[0].ID+" "+Evil)})
	}
}

// history answers with one entry a page.
func history(r *http.Request) any {
	all := History().Entries
	from, _ := strconv.Atoi(r.URL.Query().Get("before")) // 0: the first page
	p := page.History{Time: Now, Entries: all[from : from+1]}
	if from+1 < len(all) {
		p.Next = strconv.Itoa(from + 1)
	}
	return p
}

func (a *Agent) reclaim(w http.ResponseWriter, r *http.Request) {
	var q page.ReclaimRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		answer(w, http.StatusBadRequest, page.Error{Error: err.Error()})
		return
	}
	a.mu.Lock()
	if len(a.Next) > 0 {
		a.Plan, a.Next = a.Next[0], a.Next[1:]
	}
	plan := a.Plan // the agents of several nodes are one here
	a.mu.Unlock()
	switch {
	case a.Busy != "":
		answer(w, http.StatusConflict, page.Error{Error: a.Busy})
	case q.Digest != plan.Digest:
		answer(w, http.StatusConflict, page.Error{Error: "the plan is another one now", Plan: &plan})
	case a.Events != "":
		_, _ = io.WriteString(w, a.Events)
	default:
		carryOut(w, plan)
	}
	if a.Cut {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func carryOut(w io.Writer, plan page.Plan) {
	enc := json.NewEncoder(w)
	n := len(plan.Remove)
	step := func(e page.ReclaimEvent) { e.Time, e.Of = Now, n; _ = enc.Encode(e) }
	step(page.ReclaimEvent{Event: "begun"})
	for i, image := range plan.Remove {
		step(page.ReclaimEvent{Event: "removed", ID: image.ID, References: image.References, FreedBytes: image.FreesBytes, Removed: i + 1})
	}
	step(page.ReclaimEvent{Event: "ended", Removed: n, FreedBytes: plan.Frees.Bytes, Result: "done"})
}
