package machines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

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
	version  *int
	time     string
	complete bool
	count    *int
	nodes    []nodes.Machine
	listed   bool
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
	d := json.NewDecoder(bytes.NewReader(data))
	var l list
	if err := object(d, l.field(d)); err != nil {
		return nil, plain(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows after it")
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

// plain explains an end of the input that comes too early. It returns other errors unchanged.
func plain(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends before its end: a part is missing")
	}
	return err
}

// object reads a JSON object, and calls field for each key. A key that occurs twice is an error.
func object(d *json.Decoder, field func(key string) error) error {
	if err := delim(d, '{', "an object"); err != nil {
		return err
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string) // a string, by the grammar
		if seen[key] {
			return fmt.Errorf("field %s is there twice", quote([]byte(key)))
		}
		seen[key] = true
		if err := field(key); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func delim(d *json.Decoder, want json.Delim, what string) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if t != want {
		return fmt.Errorf("want %s, not %s", what, quote(fmt.Append(nil, t)))
	}
	return nil
}

func value(d *json.Decoder, key string, to any) error {
	err := d.Decode(to)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s: a %s", key, wrong.Value)
	}
	return err
}

func (l *list) field(d *json.Decoder) func(string) error {
	return func(key string) error {
		switch key {
		case "version":
			return value(d, key, &l.version)
		case "time":
			return value(d, key, &l.time)
		case "complete":
			return value(d, key, &l.complete)
		case "count":
			return value(d, key, &l.count)
		case "nodes":
			return l.entries(d)
		}
		return fmt.Errorf("field %s is not known", quote([]byte(key)))
	}
}

func (l *list) entries(d *json.Decoder) error {
	if err := delim(d, '[', "a list of nodes"); err != nil {
		return err
	}
	l.listed = true
	for d.More() {
		var m nodes.Machine
		err := object(d, func(key string) error {
			switch key {
			case "name":
				return value(d, "nodes[].name", &m.Name)
			case "providerID":
				return value(d, "nodes[].providerID", &m.ProviderID)
			}
			return fmt.Errorf("field %s of nodes[%d] is not known", quote([]byte(key)), len(l.nodes))
		})
		if err != nil {
			return err
		}
		l.nodes = append(l.nodes, m)
	}
	_, err := d.Token()
	return err
}

// check compares the document with what it says about itself.
func (l *list) check() (*nodes.Inventory, error) {
	switch {
	case l.version == nil:
		return nil, errors.New("version is missing")
	case *l.version != version:
		return nil, fmt.Errorf("version %d is not known, only %d is", *l.version, version)
	case l.time == "":
		return nil, errors.New("time is missing")
	case !l.complete:
		return nil, errors.New("it does not say that it is complete")
	case l.count == nil:
		return nil, errors.New("count is missing")
	case !l.listed:
		return nil, errors.New("nodes are missing")
	case *l.count != len(l.nodes):
		return nil, fmt.Errorf("count is %d, and there are %d nodes", *l.count, len(l.nodes))
	}
	at, err := time.Parse(time.RFC3339, l.time)
	if err != nil {
		return nil, fmt.Errorf("time %s is not as in 2026-11-22T12:00:00Z", quote([]byte(l.time)))
	}
	if err := l.checkNodes(); err != nil {
		return nil, err
	}
	return &nodes.Inventory{Time: at, Machines: l.nodes}, nil
}

func (l *list) checkNodes() error {
	names, ids := make(map[string]int, len(l.nodes)), make(map[string]int, len(l.nodes))
	for i, m := range l.nodes {
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
