package ui

import (
	"bytes"
	"context"
	"crypto/subtle"
	"embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
)

//go:embed files
var files embed.FS

// Source provides the data of the pages.
type Source interface {
	// Nodes returns the status of all nodes. It fails only if the agents cannot be listed.
	Nodes(ctx context.Context) ([]show.Node[page.Status], error)
	// Node returns the answers of one agent.
	Node(ctx context.Context, name string) (Node, error)
	// Why returns the explanation of an image on a node.
	Why(ctx context.Context, node, image string) (page.Why, error)
}

// Node has the answers of one agent. An answer that is missing is empty, and Missing has the
// reason.
type Node struct {
	Status  page.Status
	Past    page.Past
	Images  page.Images
	History page.History
	Usage   page.Usage
	Writers show.Writers
	Missing []string
}

// Options configure a UI. All fields are required.
type Options struct {
	Source Source
	Host   string // of its address: 127.0.0.1:PORT
	Token  string // the first segment of each path
}

// How often an open page is rendered again, and how long that may take.
const (
	nodeEvery  = 10 * time.Second
	fleetEvery = 30 * time.Second
	patience   = 5 * time.Minute // for all agents; each one has its own timeout, too
)

// Bounds of one page, so that it has at most 100 KB.
const (
	nodesMost   = 100  // nodes
	silentMost  = 25   // of these, nodes that do not answer
	imagesMost  = 75   // images of a node; a link leads to the images after them
	rowsMost    = 25   // images that go next, history entries, names and users of an image
	longestText = 1000 // characters of a text
	longestCell = 120  // characters of a text in a table that may have many rows
)

// UI renders the pages. [UI.Handler] serves them.
type UI struct {
	o     Options
	pages map[string]*template.Template
}

// New parses the templates.
func New(o Options) (*UI, error) {
	u := &UI{o: o, pages: make(map[string]*template.Template)}
	words := template.FuncMap(show.Words())
	maps.Copy(words, template.FuncMap{"disk": drawDisk, "day": drawDay, "segment": url.PathEscape, "first": first, "more": more, "clean": cleanUpTo(longestText), "short": cleanUpTo(longestCell)})
	for _, name := range []string{"fleet", "node", "image", "problem"} {
		t, err := template.New("layout.html").Funcs(words).ParseFS(files, "files/layout.html", "files/"+name+".html")
		if err != nil {
			return nil, fmt.Errorf("parse the page %s: %w", name, err)
		}
		u.pages[name] = t
	}
	return u, nil
}

// Handler answers all requests.
func (u *UI) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, name := range []string{"style.css", "live.js", "icon.svg"} {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, "files/"+name) })
	}
	for path, render := range map[string]func(r *http.Request) (*content, error){
		"/{$}": u.fleet, "/node/{node}": u.node, "/node/{node}/image": u.image,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { u.page(w, r, render) })
		mux.HandleFunc("GET /live"+path, func(w http.ResponseWriter, r *http.Request) { u.live(w, r, render) })
	}
	return u.guard(mux)
}

// guard sets security headers, and lets in only GET and HEAD requests with the right Host, origin
// and token. The token is in the path, because browsers send a cookie to all ports of an address,
// also to those of other users' programs.
func (u *UI) guard(next http.Handler) http.Handler {
	next = http.StripPrefix(u.root(), next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		token, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		origin := r.Header.Get("Origin")
		switch {
		case r.Host != u.o.Host:
			http.Error(w, "this address is not ebb's: open the one that ebb ui has printed", http.StatusForbidden)
		case origin != "" && origin != "http://"+u.o.Host, fromElsewhere(r):
			http.Error(w, "another site asks: open the address that ebb ui has printed", http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "these pages change nothing", http.StatusMethodNotAllowed)
		case subtle.ConstantTimeCompare([]byte(token), []byte(u.o.Token)) != 1:
			http.Error(w, "open the address that ebb ui has printed: it has a token that this one lacks", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// root returns the prefix of all paths.
func (u *UI) root() string { return "/" + u.o.Token }

// fromElsewhere reports whether a page of another origin sends the request. A person may follow a
// link from another origin.
func fromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

// content is what a page shows.
type content struct {
	Root  string // prefix of all paths
	Title string
	Live  string // path of the event stream with the changes
	Data  any
	name  string // of the template
	every time.Duration
}

func (u *UI) fleet(r *http.Request) (*content, error) {
	nodes, err := u.o.Source.Nodes(r.Context())
	if err != nil {
		return nil, err
	}
	q := r.URL.Query().Get("q")
	if q != "" {
		nodes = slices.DeleteFunc(nodes, func(n show.Node[page.Status]) bool { return !strings.Contains(n.Name, q) })
	}
	show.ByPressure(nodes)
	data := struct {
		Query         string
		All, Left     int
		Nodes         []show.Node[page.Status] // those without an answer first
		Observed      *page.Observed
		Silent, Ready int
	}{Query: q, All: len(nodes), Silent: show.Silent(nodes)}
	data.Observed, _ = show.Observed(nodes)
	for _, n := range nodes {
		if n.Err == nil && n.Page.Ready {
			data.Ready++
		}
	}
	answered := len(nodes) - data.Silent // ByPressure has put the others behind them
	data.Nodes = slices.Clone(nodes[answered:][:min(data.Silent, silentMost)])
	data.Nodes = append(data.Nodes, nodes[:min(answered, nodesMost-len(data.Nodes))]...)
	data.Left = len(nodes) - len(data.Nodes)
	return &content{Title: "Nodes", name: "fleet", every: fleetEvery, Data: data}, nil
}

func (u *UI) node(r *http.Request) (*content, error) {
	name := r.PathValue("node")
	n, err := u.o.Source.Node(r.Context(), name)
	if err != nil {
		return nil, err
	}
	data := struct {
		Name string
		Node
		Next []page.Image
		Part part // of the images
	}{name, n, show.Next(n.Images), partOf(n.Images.Images, r.URL.Query().Get("from"))}
	return &content{Title: name, name: "node", every: nodeEvery, Data: data}, nil
}

// part is the images of a node that one page shows. Earlier and Later are where the parts before and
// after it begin; nil: there is none.
type part struct {
	Images         []page.Image
	First, Last    int // places of its images, from 1
	All            int
	Earlier, Later *int
}

// partOf returns the part of a list that begins at from. Without a number it is the first part.
func partOf(all []page.Image, from string) part {
	at, _ := strconv.Atoi(from)
	at = min(max(at, 0), max(len(all)-1, 0))
	to := min(at+imagesMost, len(all))
	p := part{Images: all[at:to], First: at + 1, Last: to, All: len(all)}
	if at > 0 {
		earlier := max(at-imagesMost, 0)
		p.Earlier = &earlier
	}
	if to < len(all) {
		p.Later = &to
	}
	return p
}

func (u *UI) image(r *http.Request) (*content, error) {
	node, image := r.PathValue("node"), r.URL.Query().Get("id")
	w, err := u.o.Source.Why(r.Context(), node, image)
	if err != nil {
		return nil, err
	}
	data := struct {
		Node string
		page.Why
	}{node, w}
	return &content{Title: image + " on " + node, name: "image", every: nodeEvery, Data: data}, nil
}

// render executes a template: "layout.html" for the whole page, "main" for the part that changes.
// If make fails, render returns its error, and body shows it. body is nil only if the template
// fails.
func (u *UI) render(r *http.Request, part string, make func(r *http.Request) (*content, error)) (body []byte, every time.Duration, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	c, err := make(r.WithContext(ctx))
	if err != nil {
		c = &content{Title: "Problem", name: "problem", every: nodeEvery, Data: show.Clean(err.Error())}
	}
	c.Root = u.root()
	c.Live = c.Root + "/live" + strings.TrimPrefix(r.URL.EscapedPath(), "/live")
	if r.URL.RawQuery != "" {
		c.Live += "?" + r.URL.RawQuery
	}
	var b bytes.Buffer
	if failed := u.pages[c.name].ExecuteTemplate(&b, part, c); failed != nil {
		return nil, 0, failed
	}
	return b.Bytes(), c.every, err
}

func (u *UI) page(w http.ResponseWriter, r *http.Request, make func(r *http.Request) (*content, error)) {
	body, _, err := u.render(r, "layout.html", make)
	if body == nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
	}
	_, _ = w.Write(body) // the browser may have disconnected
}

// live sends the part of a page that changes as an event stream: once at first, then whenever it
// has changed.
func (u *UI) live(w http.ResponseWriter, r *http.Request, make func(r *http.Request) (*content, error)) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	var before []byte
	for {
		body, every, _ := u.render(r, "main", make) // an error is on the page
		if body == nil || r.Context().Err() != nil {
			return
		}
		if !bytes.Equal(body, before) {
			before = body
			for line := range strings.SplitSeq(string(body), "\n") {
				fmt.Fprintf(w, "data: %s\n", line)
			}
			fmt.Fprint(w, "\n")
			if out.Flush() != nil {
				return
			}
		}
		select {
		case <-time.After(every):
		case <-r.Context().Done():
			return
		}
	}
}

// first returns the rows of a list that a page shows. more returns how many rows follow them.
func first(list any) any {
	v := reflect.ValueOf(list)
	return v.Slice(0, min(v.Len(), rowsMost)).Interface()
}

func more(list any) int { return max(0, reflect.ValueOf(list).Len()-rowsMost) }

// cleanUpTo returns a function that makes text of a node safe, and cuts it after so many characters.
func cleanUpTo(most int) func(text string) string {
	return func(text string) string {
		runes := []rune(show.Clean(text))
		if len(runes) <= most {
			return string(runes)
		}
		return string(runes[:most-1]) + "…"
	}
}
