package config

import (
	"net/url"
	"path/filepath"
	"regexp"
	"time"

	"github.com/ebb-agent/ebb/policy/nodes"
)

// Nodes configures which Nodes are reported, and which are deleted; see [nodes.Config].
type Nodes struct {
	Mode        Mode      `json:"mode"`
	NotReadyFor Duration  `json:"notReadyFor"`
	Label       string    `json:"label"`
	Taint       string    `json:"taint"`
	MaxShare    float64   `json:"maxShare"`
	Inventory   Inventory `json:"inventory"`
}

// Inventory configures where the list of machines is, and when it is trusted. At most one of File, URL
// and Command may be set.
type Inventory struct {
	File      string   `json:"file"`
	URL       string   `json:"url"`
	CAFile    string   `json:"caFile"`
	TokenFile string   `json:"tokenFile"`
	Command   []string `json:"command"`
	Timeout   Duration `json:"timeout"`
	MaxAge    Duration `json:"maxAge"`
	MinShare  float64  `json:"minShare"`
}

// sources returns how many of File, URL and Command are set.
func (i Inventory) sources() (n int) {
	for _, set := range []bool{i.File != "", i.URL != "", len(i.Command) > 0} {
		if set {
			n++
		}
	}
	return n
}

// Policy returns the configuration of the rules.
func (n Nodes) Policy() nodes.Config {
	return nodes.Config{
		NotReadyFor: time.Duration(n.NotReadyFor), Label: n.Label, Taint: n.Taint, MaxShare: n.MaxShare,
		Inventory: n.Inventory.sources() == 1, MaxAge: time.Duration(n.Inventory.MaxAge), MinShare: n.Inventory.MinShare,
	}
}

func defaultNodes() Nodes {
	return Nodes{Mode: Observe, NotReadyFor: Duration(72 * time.Hour), MaxShare: 0.1,
		Inventory: Inventory{Command: []string{}, Timeout: Duration(10 * time.Second), MaxAge: Duration(30 * time.Minute), MinShare: 0.8}}
}

// markPattern matches a label or a taint: key, or key=value.
var markPattern = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?(=([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?)?$`)

func (n *Nodes) problems(fail func(field, format string, args ...any), between func(field string, d Duration, least time.Duration)) {
	const at = "collectors.nodes."
	between(at+"notReadyFor", n.NotReadyFor, 10*time.Minute)
	for field, mark := range map[string]string{"label": n.Label, "taint": n.Taint} {
		switch {
		case mark == "":
		case !markPattern.MatchString(mark):
			fail(at+field, "%q is neither key nor key=value", mark)
		case n.Inventory.sources() == 0:
			fail(at+field, "a Node with it would never be deleted, because there is no inventory")
		}
	}
	for field, share := range map[string]float64{"maxShare": n.MaxShare, "inventory.minShare": n.Inventory.MinShare} {
		if !(share > 0 && share <= 1) {
			fail(at+field, "%v is not above 0 and at most 1", share)
		}
	}
	n.Inventory.problems(fail, at+"inventory")
}

// longestInventory bounds how long an inventory may take to answer. The answer is used until two
// minutes after the request.
const longestInventory = time.Minute

func (i *Inventory) problems(fail func(field, format string, args ...any), at string) {
	if i.sources() > 1 {
		fail(at, "want one of file, url and command")
	}
	for field, path := range map[string]string{"file": i.File, "caFile": i.CAFile, "tokenFile": i.TokenFile} {
		if path != "" && !filepath.IsAbs(path) {
			fail(at+"."+field, "%q is not an absolute path", path)
		}
	}
	i.urlProblems(fail, at)
	if len(i.Command) > 0 && !filepath.IsAbs(i.Command[0]) {
		fail(at+".command[0]", "%q is not an absolute path", i.Command[0])
	}
	if d := time.Duration(i.Timeout); d < 100*time.Millisecond || d > longestInventory {
		fail(at+".timeout", "%s is not between 100ms and %s", i.Timeout, Duration(longestInventory))
	}
	if d := time.Duration(i.MaxAge); d < time.Minute || d > 24*time.Hour {
		fail(at+".maxAge", "%s is not between 1m and 24h", i.MaxAge)
	}
}

// urlProblems checks the URL and its files. Its errors do not repeat the URL, which may contain a
// password.
func (i *Inventory) urlProblems(fail func(field, format string, args ...any), at string) {
	u, err := url.Parse(i.URL)
	if i.URL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Fragment != "") {
		fail(at+".url", "want http:// or https:// and a host, without user and fragment")
		return
	}
	for field, path := range map[string]string{"caFile": i.CAFile, "tokenFile": i.TokenFile} {
		if path != "" && u.Scheme != "https" {
			fail(at+"."+field, "it is for an https url alone")
		}
	}
}
