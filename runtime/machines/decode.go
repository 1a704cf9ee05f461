package machines

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"sigs.k8s.io/json"

	"github.com/ebb-agent/ebb/policy/nodes"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// version is the only version of the format.
const version = 1

// Maximum length in bytes of a Node's name and of a provider ID.
const (
	longestName = 253
	longestID   = 2048
)

// list is the document.
type list struct {
	Version  *int   `json:"version"`
	Time     string `json:"time"`
	Complete bool   `json:"complete"`
	Count    *int   `json:"count"`
	Nodes    []struct {
		Name       string `json:"name"`
		ProviderID string `json:"providerID"`
	} `json:"nodes"`
}

// Decode reads an inventory.
func Decode(data []byte) (*nodes.Inventory, error) {
	start := bytes.TrimLeft(data, " \t\r\n")
	switch {
	case len(start) == 0:
		return nil, errors.New("it is empty")
	case start[0] != '{':
		return nil, fmt.Errorf("it is no JSON object: it begins with %s", quote(start))
	case !utf8.Valid(data):
		return nil, errors.New("it is not UTF-8")
	}
	var l list
	strict, err := json.UnmarshalStrict(data, &l)
	if err := errors.Join(append(strict, err)...); err != nil {
		return nil, errors.New(fault.CleanUpTo(err.Error(), 300))
	}
	return l.check()
}

// quote returns the beginning of a text that was not understood, cleaned and in quotes.
func quote(data []byte) string {
	const most = 40
	if len(data) > most {
		data = append(data[:most:most], "…"...)
	}
	return fmt.Sprintf("%q", fault.Clean(string(data)))
}

// check compares the document with what it states about itself.
func (l *list) check() (*nodes.Inventory, error) {
	switch {
	case l.Version == nil:
		return nil, errors.New("version is missing")
	case *l.Version != version:
		return nil, fmt.Errorf("version %d is not known, only %d is", *l.Version, version)
	case l.Time == "":
		return nil, errors.New("time is missing")
	case !l.Complete:
		return nil, errors.New("it does not say that it is complete")
	case l.Count == nil:
		return nil, errors.New("count is missing")
	case l.Nodes == nil:
		return nil, errors.New("nodes are missing")
	case *l.Count != len(l.Nodes):
		return nil, fmt.Errorf("count is %d, and there are %d nodes", *l.Count, len(l.Nodes))
	}
	at, err := time.Parse(time.RFC3339, l.Time)
	if err != nil {
		return nil, fmt.Errorf("time %s is not as in 2026-11-22T12:00:00Z", quote([]byte(l.Time)))
	}
	if err := l.checkNodes(); err != nil {
		return nil, err
	}
	inventory := &nodes.Inventory{Time: at}
	for _, m := range l.Nodes {
		inventory.Machines = append(inventory.Machines, nodes.Machine(m))
	}
	return inventory, nil
}

func (l *list) checkNodes() error {
	names, ids := make(map[string]int, len(l.Nodes)), make(map[string]int, len(l.Nodes))
	for i, m := range l.Nodes {
		switch {
		case m.Name == "" && m.ProviderID == "":
			return fmt.Errorf("nodes[%d] has neither name nor providerID", i)
		case len(m.Name) > longestName || len(m.ProviderID) > longestID:
			return fmt.Errorf("nodes[%d]: its name or providerID is too long", i)
		case strings.ContainsFunc(m.Name+m.ProviderID, odd):
			return fmt.Errorf("nodes[%d]: its name or providerID has spaces, or what cannot be printed", i)
		}
		if at, twice := names[m.Name]; twice && m.Name != "" {
			return fmt.Errorf("nodes[%d] and nodes[%d] have one name, %s", at, i, quote([]byte(m.Name)))
		}
		if at, twice := ids[m.ProviderID]; twice && m.ProviderID != "" {
			return fmt.Errorf("nodes[%d] and nodes[%d] have one providerID, %s", at, i, quote([]byte(m.ProviderID)))
		}
		names[m.Name], ids[m.ProviderID] = i, i
	}
	return nil
}

func odd(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError }
