package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

const (
	// maxFileBytes bounds a configuration file; a real one has a few kilobytes.
	maxFileBytes = 1 << 20
	// maxText bounds a value that is shown: a path, a threshold.
	maxText = 4096
	// maxEntries bounds a map of thresholds or gates. There are nine signals, and
	// some two hundred gates.
	maxEntries = 1000
)

const (
	wantKind    = "KubeletConfiguration"
	wantVersion = "kubelet.config.k8s.io/v1beta1"
)

// document is a KubeletConfiguration with its fields not decoded yet: whether a
// field is absent or null makes a difference where files are merged.
type document map[string]json.RawMessage

// parseFile reads YAML or JSON that says what it is.
func parseFile(data []byte) (document, error) {
	d, err := parseDocument(data)
	if err != nil {
		return nil, err
	}
	if kind, version := d.text("kind"), d.text("apiVersion"); kind != wantKind || version != wantVersion {
		return nil, fmt.Errorf("kind %.60q, apiVersion %.60q: want %s, %s", kind, version, wantKind, wantVersion)
	}
	return d, nil
}

// parseDocument reads YAML or JSON.
func parseDocument(data []byte) (document, error) {
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("larger than %d bytes", maxFileBytes)
	}
	asJSON, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, fmt.Errorf("not valid YAML: %w", err)
	}
	var d document
	if err := json.Unmarshal(asJSON, &d); err != nil {
		return nil, errors.New("not a mapping")
	}
	if d == nil {
		return nil, errors.New("nothing in it")
	}
	return d, nil
}

// text is a string field, "" if it is anything else.
func (d document) text(name string) string {
	var s string
	if json.Unmarshal(d[name], &s) != nil {
		return ""
	}
	return s
}

// laying lays documents over settings, and collects what does not fit.
type laying struct {
	doc  document
	from string
	errs []error
}

// field decodes one field into v. It returns present if the document speaks of
// it, and null if it does so to take it away.
func (l *laying) field(name string, v any) (present, null bool) {
	raw, present := l.doc[name]
	if !present {
		return false, false
	}
	if string(raw) == "null" {
		return true, true
	}
	if err := json.Unmarshal(raw, v); err != nil {
		l.errs = append(l.errs, fmt.Errorf("%s: cannot be a %T", name, v))
		return false, false
	}
	return true, false
}

func (l *laying) number(name string, out *Value[int], otherwise Value[int]) {
	var n int64
	switch present, null := l.field(name, &n); {
	case null:
		*out = otherwise
	case present && (n < math.MinInt32 || n > math.MaxInt32):
		l.errs = append(l.errs, fmt.Errorf("%s: %d is out of range", name, n))
	case present:
		*out = Value[int]{int(n), l.from}
	}
}

// duration takes zero for "not set" where the kubelet does: its defaulting
// cannot tell the two apart.
func (l *laying) duration(name string, out *Value[time.Duration], otherwise Value[time.Duration]) {
	var s string
	present, null := l.field(name, &s)
	if !present {
		return
	}
	if null {
		*out = otherwise
		return
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		l.errs = append(l.errs, fmt.Errorf("%s: %.60q is not a duration", name, s))
	case d == 0 && otherwise.V != 0:
		*out = otherwise
	default:
		*out = Value[time.Duration]{d, l.from}
	}
}

func (l *laying) string(name string, out *Value[string], otherwise Value[string]) {
	var s string
	switch present, null := l.field(name, &s); {
	case null, present && s == "":
		*out = otherwise
	case present && len(s) > maxText:
		l.errs = append(l.errs, fmt.Errorf("%s: longer than %d bytes", name, maxText))
	case present:
		*out = Value[string]{s, l.from}
	}
}

// thresholds lays a map over another, key by key; null takes away a key or, in
// its place, all of them.
func (l *laying) thresholds(name string, out *map[string]Value[string]) {
	var m map[string]*string
	present, null := l.field(name, &m)
	if null {
		*out = map[string]Value[string]{}
	}
	if !present || null {
		return
	}
	if len(m) > maxEntries {
		l.errs = append(l.errs, fmt.Errorf("%s: more than %d entries", name, maxEntries))
		return
	}
	for signal, v := range m {
		switch {
		case v == nil:
			delete(*out, signal)
		case len(signal)+len(*v) > maxText:
			l.errs = append(l.errs, fmt.Errorf("%s: an entry is longer than %d bytes", name, maxText))
		default:
			(*out)[signal] = Value[string]{*v, l.from}
		}
	}
}

func (l *laying) gates(out map[string]Value[bool]) {
	var m map[string]bool
	if present, null := l.field("featureGates", &m); !present || null || len(m) > maxEntries {
		return
	}
	for gate, on := range m {
		out[gate] = Value[bool]{on, l.from}
	}
}

// lay puts a document over the settings.
func (s *Settings) lay(doc document, from string) error {
	l, d := &laying{doc: doc, from: from}, Defaults()
	l.number("imageGCHighThresholdPercent", &s.ImageGCHighThresholdPercent, d.ImageGCHighThresholdPercent)
	l.number("imageGCLowThresholdPercent", &s.ImageGCLowThresholdPercent, d.ImageGCLowThresholdPercent)
	l.duration("imageMinimumGCAge", &s.ImageMinimumGCAge, d.ImageMinimumGCAge)
	l.duration("imageMaximumGCAge", &s.ImageMaximumGCAge, d.ImageMaximumGCAge)
	l.thresholds("evictionHard", &s.EvictionHard)
	l.thresholds("evictionSoft", &s.EvictionSoft)
	l.field("mergeDefaultEvictionSettings", &s.mergeDefaults)
	l.string("containerRuntimeEndpoint", &s.ContainerRuntimeEndpoint, d.ContainerRuntimeEndpoint)
	l.string("imageServiceEndpoint", &s.ImageServiceEndpoint, d.ImageServiceEndpoint)
	l.string("podLogsDir", &s.PodLogsDir, d.PodLogsDir)
	l.gates(s.FeatureGates)
	if len(l.errs) > 0 {
		return errors.Join(l.errs...)
	}
	return nil
}

// layFile puts the file of --config over the settings. It alone brings the
// default thresholds (loadConfigFile in cmd/kubelet/app/server.go).
func (s *Settings) layFile(data []byte, from string) error {
	doc, err := parseFile(data)
	if err == nil {
		err = s.lay(doc, from)
	}
	if err != nil {
		return err
	}
	raw, present := doc["evictionHard"]
	if present && string(raw) != "null" && !s.mergeDefaults {
		return nil
	}
	for signal, v := range defaultEvictionHard {
		if _, set := s.EvictionHard[signal]; !set {
			s.EvictionHard[signal] = defaultOf(v)
		}
	}
	return nil
}

// layDropIn puts a file of --config-dir over the settings.
func (s *Settings) layDropIn(data []byte, from string) error {
	doc, err := parseFile(data)
	if err != nil {
		return err
	}
	return s.lay(doc, from)
}

// socketPath is the path behind an endpoint; "" if it is no unix socket.
func socketPath(endpoint string) string {
	path, isUnix := strings.CutPrefix(endpoint, "unix://")
	if !isUnix && strings.Contains(endpoint, "://") {
		return ""
	}
	return path
}

// Socket is the path of the runtime's socket; "" if it is none.
func (s *Settings) Socket() string { return socketPath(s.ContainerRuntimeEndpoint.V) }
