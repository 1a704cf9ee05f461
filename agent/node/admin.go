package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/history"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/reclaim"
	"github.com/ebb-agent/ebb/agent/node/show"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

const (
	// longestRequest bounds the body of a request, in bytes. The longest body has a configuration file.
	longestRequest = 1 << 20
	// longestWords bounds the name of a caller, and the reason for a pause, in bytes.
	longestWords = 256
	pauseMost    = 30 * 24 * time.Hour
	historyMost  = 20 // entries about one image
)

// admin serves the admin socket, which belongs to root: metrics, health, and all requests that return
// details of the node or change something. Those are served only there. The name of a caller is what
// the caller claims.
type admin struct {
	*parts
	looks *looks
}

func (a *admin) handler() http.Handler {
	mux := http.NewServeMux()
	a.probes(mux)
	for pattern, answer := range map[string]func(*http.Request) (any, error){
		"GET /status":     a.status,
		"GET /images":     a.images,
		"GET /why":        a.why,
		"POST /plan":      a.plan,
		"GET /du":         a.usage,
		"GET /history":    a.past,
		"GET /past":       a.lastDay,
		"POST /pause":     a.pause,
		"POST /resume":    a.resume,
		"GET /containers": a.containers,
		"GET /writers":    func(*http.Request) (any, error) { return a.writers.Explain(), nil },
		"GET /heat":       func(*http.Request) (any, error) { return a.heat.Explain(), nil },
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			v, err := answer(r)
			a.reply(w, v, err)
		})
	}
	mux.HandleFunc("POST /reclaim", a.carryOut)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(page.HeaderVersion, program.Version())
		r.Body = http.MaxBytesReader(w, r.Body, longestRequest)
		mux.ServeHTTP(w, r)
	})
}

// failure is an error with the HTTP status and the page of its answer.
type failure struct {
	status int
	page   page.Error
}

func (f *failure) Error() string { return f.page.Error }

func refuse(status int, format string, args ...any) error {
	return &failure{status, page.Error{Error: fmt.Sprintf(format, args...)}}
}

func (a *admin) reply(w http.ResponseWriter, v any, err error) {
	status := http.StatusOK
	if err != nil {
		var f *failure
		if !errors.As(err, &f) {
			f = &failure{http.StatusServiceUnavailable, page.Error{Error: err.Error()}}
		}
		status, v = f.status, f.page
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON"}`)
		a.log.Error("answer a request", "reason", "the answer cannot be written as JSON", "error", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(append(text, '\n')); err != nil {
		a.log.Debug("answer a request", "error", err) // the client disconnected
	}
}

// caller returns the name of the caller, as the request claims it.
func caller(r *http.Request) string { return words(r.Header.Get(page.HeaderCaller)) }

// words makes text of a client valid UTF-8 on one line, of at most longestWords bytes.
func words(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	return strings.ToValidUTF8(s[:min(len(s), longestWords)], "") // the cut may have split a rune
}

// body decodes the JSON body of a request. An empty body leaves the request's zero value.
func body(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return refuse(http.StatusBadRequest, "the request cannot be read: %v", err)
	}
	return nil
}

// withImages calls f under the monitor with the latest inventory. If the runtime has sent an event
// since, withImages first asks for a new list, and waits for it for at most answerWait. During a run
// the inventory is the run's own. f must not do what takes long: do that after withImages returns.
func (a *admin) withImages(ctx context.Context, f func(inv *inventory.Inventory)) (v show.View, err error) {
	read := a.heat.ReadPercent()
	patience, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	for asked := false; ; asked = true {
		var listed <-chan struct{}
		late := patience.Err() != nil
		if turn := inTurn(ctx, a.monitor, func() {
			l := a.looks
			switch {
			case l.shown.inv != nil && (!l.eventsSince || l.looking || asked || late):
				v = a.view(l.shown.inv, l.shown.asked, read)
				f(l.shown.inv)
			case late:
				err = refuse(http.StatusServiceUnavailable, "the images are not known yet: %s", a.missing())
			default:
				if listed = l.shown.news; !asked {
					l.request(0)
				}
			}
		}); turn != nil || listed == nil {
			return v, errors.Join(busy(turn), err)
		}
		select {
		case <-listed:
		case <-patience.Done():
		}
	}
}

// busy turns an error of inTurn into an answer that asks the client to try again.
func busy(err error) error {
	if err == nil {
		return nil
	}
	return refuse(http.StatusServiceUnavailable, "the agent is busy; try again")
}

// missing returns why the images are not known.
func (a *admin) missing() string {
	if why := a.health.notReady.Load(); why != nil {
		return *why
	}
	return "they are being listed"
}

func (a *admin) status(r *http.Request) (any, error) {
	var s page.Status
	var may reclaim.Question
	for waited := false; ; waited = true {
		var listed <-chan struct{}
		if turn := inTurn(r.Context(), a.monitor, func() {
			s = a.pageStatus(a.looks)
			switch shown := a.looks.shown; {
			case shown.inv != nil:
				may = a.reclaim.Advice().Ask(shown.inv, page.PlanRequest{})
			case a.looks.looking && !waited:
				listed = shown.news
			default:
				s.ImagesUnknown = a.missing()
			}
		}); turn != nil {
			return nil, busy(turn)
		}
		if listed == nil {
			break
		}
		select {
		case <-listed:
		case <-time.After(answerWait):
		case <-r.Context().Done():
		}
	}
	if may != nil {
		if answer, known := may(); known {
			s.Images.Unused, s.Images.Reclaimable = answer.May, page.Size(answer.Most)
		}
	}
	return s, nil
}

// lastDay returns how full the filesystems were in the last day.
func (a *admin) lastDay(r *http.Request) (any, error) {
	var p page.Past
	if turn := inTurn(r.Context(), a.monitor, func() { p = a.pagePast() }); turn != nil {
		return nil, busy(turn)
	}
	return p, nil
}

func (a *admin) images(r *http.Request) (any, error) {
	var plan image.Plan
	v, err := a.withImages(r.Context(), func(*inventory.Inventory) { _, plan = a.reclaim.Target() })
	if err != nil {
		return nil, err
	}
	return v.Images(plan), nil
}

func (a *admin) why(r *http.Request) (any, error) {
	name := r.URL.Query().Get("image")
	if name == "" {
		return nil, refuse(http.StatusBadRequest, "want ?image=, a name or an ID")
	}
	var why func(id string) (image.Explanation, bool)
	v, err := a.withImages(r.Context(), func(inv *inventory.Inventory) { why = a.reclaim.Advice().Why(inv) })
	if err != nil {
		return nil, err
	}
	found := inventory.Find(v.Listed, name)
	if len(found) != 1 {
		return nil, ambiguous(name, found)
	}
	e, known := why(found[0].ID)
	if !known {
		return nil, refuse(http.StatusServiceUnavailable, "nothing was decided yet")
	}
	w := v.Why(e)
	w.History = a.historyOf(w.Image.ID)
	return w, nil
}

// historyOf returns the newest entries about an image, at most historyMost.
func (a *admin) historyOf(id string) (found []page.HistoryEntry) {
	for before := ""; ; {
		past, err := a.history.Read(history.PageMost, before)
		if err != nil {
			a.log.Debug("explain an image without its whole history", "error", err)
		}
		for _, e := range past.Entries {
			if e.ID == id && len(found) < historyMost {
				found = append(found, e)
			}
		}
		if before = past.Next; before == "" || len(found) == historyMost {
			return found
		}
	}
}

// past returns a page of what was removed and refused.
func (a *admin) past(r *http.Request) (any, error) {
	q, limit := r.URL.Query(), 0 // 0: the default number
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > history.PageMost {
			return nil, refuse(http.StatusBadRequest, "limit %.20q: want a number from 1 to %d", text, history.PageMost)
		}
		limit = n
	}
	p, err := a.history.Read(limit, q.Get("before"))
	switch {
	case errors.Is(err, history.ErrBefore):
		return nil, refuse(http.StatusBadRequest, "%v", err)
	case err != nil:
		return nil, refuse(http.StatusServiceUnavailable, "%v", err)
	}
	p.Time = a.now()
	return p, nil
}

// ambiguous returns why a name is not the name of exactly one image.
func ambiguous(name string, found []inventory.Image) error {
	if len(found) == 0 {
		return refuse(http.StatusNotFound, "no image %q is here", name)
	}
	var list []string
	for _, i := range found[:min(len(found), 10)] {
		list = append(list, strings.Join(append([]string{i.ID}, i.References...), " "))
	}
	return refuse(http.StatusConflict, "%q is the name of %d images; ask for one of them: %s", name, len(found), strings.Join(list, ", "))
}

func (a *admin) plan(r *http.Request) (any, error) {
	var q page.PlanRequest
	if err := body(r, &q); err != nil {
		return nil, err
	}
	cfg, keep, err := checkPlan(q)
	if err != nil {
		return nil, err
	}
	var question reclaim.Question
	v, err := a.withImages(r.Context(), func(inv *inventory.Inventory) {
		switch {
		case q.Config != "":
			question = a.reclaim.Advice().Would(inv, cfg.Policy(), keep)
		case asks(q):
			question = a.reclaim.Advice().Ask(inv, q)
		default:
			question = a.reclaim.Advice().Now(inv)
		}
	})
	if err != nil {
		return nil, err
	}
	answer, known := question()
	if !known {
		return nil, refuse(http.StatusServiceUnavailable, "the filesystem of the images is not known yet")
	}
	if inodes := q.FreeInodes > 0 || q.ToInodesPercent != nil; inodes && answer.Inodes == 0 {
		return nil, refuse(http.StatusBadRequest, "the filesystem at %s has no fixed number of inodes: none can be freed", answer.Path)
	}
	return pagePlan(v, answer), nil
}

// asks reports whether a request names an amount.
func asks(q page.PlanRequest) bool { return asksFor(q) || asksUntil(q) }

func asksFor(q page.PlanRequest) bool { return q.FreeBytes > 0 || q.FreeInodes > 0 }

func asksUntil(q page.PlanRequest) bool { return q.ToPercent != nil || q.ToInodesPercent != nil }

// checkPlan refuses a request that makes no sense, and parses its configuration, if it has one.
func checkPlan(q page.PlanRequest) (cfg config.Config, keep image.KeepRules, err error) {
	switch {
	case asksFor(q) && asksUntil(q):
		return cfg, keep, refuse(http.StatusBadRequest, "give an amount to free or a percentage to reach, not both")
	case q.Config != "" && asks(q):
		return cfg, keep, refuse(http.StatusBadRequest, "give a configuration or an amount, not both")
	}
	for _, percent := range []*int{q.ToPercent, q.ToInodesPercent} {
		if percent != nil && (*percent < 0 || *percent > 100) {
			return cfg, keep, refuse(http.StatusBadRequest, "%d %%: want 0 to 100", *percent)
		}
	}
	if q.Config == "" {
		return cfg, keep, nil
	}
	if cfg, err = config.Parse([]byte(q.Config)); err == nil {
		keep, err = image.ParseKeepRules(cfg.Images.Keep)
	}
	if err != nil {
		return cfg, keep, refuse(http.StatusBadRequest, "configuration: %v", err)
	}
	return cfg, keep, nil
}

func (a *admin) containers(r *http.Request) (v any, err error) {
	err = inTurn(r.Context(), a.monitor, func() { v = a.workloads.Explain() })
	return v, busy(err)
}

func (a *admin) usage(r *http.Request) (any, error) {
	var plan image.Plan
	var filesystems []page.Filesystem
	var devices []uint64
	v, err := a.withImages(r.Context(), func(*inventory.Inventory) {
		_, plan = a.reclaim.Target()
		filesystems = a.pageFilesystems()
		for _, f := range a.watermark.Filesystems() {
			devices = append(devices, unix.Mkdev(uint32(f.Dev>>20), uint32(f.Dev&(1<<20-1))))
		}
	})
	if err != nil {
		return nil, err
	}
	images := v.Images(plan)
	show.LargestFirst(images.Images)
	p := page.Usage{
		Time: v.Time, Looked: v.Looked, Filesystems: filesystems, Totals: images.Totals, Images: images.Images,
		Logs: []page.Directory{}, Unknown: []string{},
	}
	readUsage(r.Context(), &p, a.cfg.Filesystems.PodLogs.Path, devices)
	return p, nil
}
