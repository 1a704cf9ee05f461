package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readList is decodeList into a slice.
func readList(r io.Reader) ([]Pod, string, error) {
	var pods []Pod
	version, err := decodeList(r, func(it item) error {
		pods = append(pods, it.Pod)
		return nil
	})
	return pods, version, err
}

const fullPod = `{
  "metadata": {"name": "web-0", "namespace": "shop", "uid": "u-1", "resourceVersion": "7",
    "deletionTimestamp": "2026-01-02T03:04:05Z", "deletionGracePeriodSeconds": 30,
    "annotations": {"kubernetes.io/config.hash": "somebody-elses-uid"}, "labels": {"a": "b"}},
  "spec": {"nodeName": "node-1",
    "initContainers": [{"name": "i", "image": "init:1"}],
    "containers": [{"name": "a", "image": "app:1"}, {"name": "b", "image": "app:1"}, {"name": "c"}],
    "ephemeralContainers": [{"name": "e", "image": "debug:1", "targetContainerName": "a"}],
    "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "image": {"reference": "models@sha256:0", "pullPolicy": "Always"}}]},
  "status": {"phase": "Failed", "reason": "Evicted", "containerStatuses": [{"image": "not-this:1"}]}}`

func TestList(t *testing.T) {
	mirror := wirePod{Namespace: "kube-system", Name: "etcd-node-1", UID: "own", Hash: "f00d", Phase: "Running", Images: []string{"etcd:3"}}
	for _, tt := range []struct {
		name, body string
		want       []Pod
	}{
		{"everything", string(wireList("5", []byte(fullPod))), []Pod{{UID: "u-1", Namespace: "shop", Name: "web-0", Deleting: true, Ended: true, Evicted: true,
			Images: []string{"init:1", "app:1", "debug:1", "models@sha256:0"}}}},
		{"a mirror pod", string(wireList("5", mirror.json())), []Pod{{UID: "f00d", Namespace: "kube-system", Name: "etcd-node-1", Images: []string{"etcd:3"}}}},
		{"a mirror pod whose hash is no UID", strings.ReplaceAll(string(wireList("5", mirror.json())), "f00d", "../../etc"),
			[]Pod{{UID: "own", Namespace: "kube-system", Name: "etcd-node-1", Images: []string{"etcd:3"}}}},
		{"annotations in upper case", strings.ReplaceAll(string(wireList("5", mirror.json())), "kubernetes.io/config", "Kubernetes.io/Config"),
			[]Pod{{UID: "own", Namespace: "kube-system", Name: "etcd-node-1", Images: []string{"etcd:3"}}}},
		{"no pods", string(wireList("5")), nil},
		{"no pods of a kubelet", `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":null}` + "\n", nil},
		{"the kind last", `{"items":[],"metadata":{"resourceVersion":"1"},"x":{"y":[1,2]},"apiVersion":"v1","kind":"PodList"}`, nil},
		{"succeeded", string(wireList("1", wirePod{Namespace: "a", Name: "b", UID: "c", Phase: "Succeeded", Reason: "Evicted"}.json())),
			[]Pod{{UID: "c", Namespace: "a", Name: "b", Ended: true}}},
		{"an image that is none", string(wireList("1", wirePod{Namespace: "a", Name: "b", UID: "c", Images: []string{strings.Repeat("x", 1025), "y"}}.json())),
			[]Pod{{UID: "c", Namespace: "a", Name: "b", Images: []string{"y"}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := readList(strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestListThatIsNone(t *testing.T) {
	pod := string(wirePod{Namespace: "a", Name: "b", UID: "c"}.json())
	list := func(items string) string {
		return `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":` + items + `}`
	}
	for name, body := range map[string]string{
		"HTML":                  "<html><body>login</body></html>",
		"a Status":              string(wireStatus(500, "InternalError", "etcd is down", "")),
		"another kind":          `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[]}`,
		"another version":       `{"kind":"PodList","apiVersion":"v2","metadata":{},"items":[]}`,
		"without kind":          `{"items":[]}`,
		"without items":         `{"kind":"PodList","apiVersion":"v1","metadata":{}}`,
		"items twice":           `{"kind":"PodList","apiVersion":"v1","items":[` + pod + `],"items":[]}`,
		"a part":                `{"kind":"PodList","apiVersion":"v1","metadata":{"continue":"x"},"items":[]}`,
		"items as a map":        list(`{}`),
		"items as text":         list(`"none"`),
		"items as a number":     list(`1`),
		"a number for a pod":    list(`[1]`),
		"nothing for a pod":     list(`[null]`),
		"a number for a name":   list(`[{"metadata":{"name":1}}]`),
		"text for containers":   list(`[{"metadata":{"name":"a","namespace":"b","uid":"c"},"spec":{"containers":"x"}}]`),
		"a pod without UID":     list(strings.Replace(`[`+pod+`]`, `"uid":"c"`, `"uid":""`, 1)),
		"a name with a path":    list(strings.Replace(`[`+pod+`]`, `"name":"b"`, `"name":"../b"`, 1)),
		"a name with escapes":   list(strings.Replace(`[`+pod+`]`, `"name":"b"`, `"name":"\u001b[2J"`, 1)),
		"a long UID":            list(strings.Replace(`[`+pod+`]`, `"uid":"c"`, `"uid":"`+strings.Repeat("c", 254)+`"`, 1)),
		"hostile annotations":   list(strings.Replace(`[`+pod+`]`, `"uid":"c"`, `"uid":"c","annotations":{"`+annotationMirror+`":{}}`, 1)),
		"something behind":      list(`[]`) + `{}`,
		"garbage behind":        list(`[]`) + `]`,
		"an array":              `[]`,
		"deep nesting":          list(strings.Repeat("[", 20000)),
		"deep nesting in a pod": list(`[{"metadata":{"labels":` + strings.Repeat(`{"a":`, 20000)),
	} {
		t.Run(name, func(t *testing.T) {
			if pods, _, err := readList(strings.NewReader(body)); !errors.Is(err, ErrMalformed) {
				t.Errorf("got %v, %v", pods, err)
			} else if s := err.Error(); len(s) > 1000 || strings.ContainsAny(s, "\x1b\n") {
				t.Errorf("an error that cannot be printed: %q", s)
			}
		})
	}
	if _, _, err := readList(strings.NewReader("")); err == nil {
		t.Error("an empty answer is a list")
	}
}

// However an answer is cut, it is no list, and no panic.
func TestListCutAnywhere(t *testing.T) {
	body := wireList("5", []byte(fullPod), wirePod{Namespace: "a", Name: "b", UID: "c", Hash: "h"}.json())
	for n := range len(body) {
		if pods, _, err := readList(bytes.NewReader(body[:n])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut after %d bytes: %v, %v", n, pods, err)
		}
	}
	if _, _, err := readList(bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
}

// repeat reads one text over and over, and counts what was taken of it.
type repeat struct {
	text   string
	taken  int64
	offset int
}

func (r *repeat) Read(p []byte) (n int, err error) {
	for n < len(p) {
		m := copy(p[n:], r.text[r.offset:])
		r.offset = (r.offset + m) % len(r.text)
		n += m
	}
	r.taken += int64(n)
	return n, nil
}

func TestListWithoutEnd(t *testing.T) {
	pod := string(wirePod{Namespace: "a", Name: "b", UID: "c"}.json())
	head := `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[`
	for name, tt := range map[string]struct {
		head, text string
		most       int64
	}{
		"pods":              {head + pod, "," + pod, maxPods * int64(len(pod)+1) * 2},
		"one pod":           {head + `{"metadata":{"name":"`, "a", 4 * maxObject},
		"white space":       {"", "  \n", 4 * maxObject},
		"a key":             {`{"`, "a", 4 * maxObject},
		"unknown fields":    {`{"a":1`, `,"a":[1,2,3]`, 1 << 20},
		"an unknown field":  {`{"a":[1`, `,1`, 4 * maxObject},
		"images of one pod": {head + `{"spec":{"containers":[{}`, `,{"image":"a"}`, 4 * maxObject},
	} {
		t.Run(name, func(t *testing.T) {
			endless := &repeat{text: tt.text}
			if _, _, err := readList(io.MultiReader(strings.NewReader(tt.head), endless)); !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			if endless.taken > tt.most {
				t.Errorf("read %d bytes before giving up", endless.taken)
			}
		})
	}
}

func TestTooManyImages(t *testing.T) {
	var pods [][]byte
	var images []string
	for i := range 2000 {
		images = append(images, fmt.Sprint("image:", i))
	}
	for i := range maxReferences/2000 + 1 {
		pods = append(pods, wirePod{Namespace: "a", Name: fmt.Sprint("b", i), UID: "c", Images: images}.json())
	}
	if _, _, err := readList(bytes.NewReader(wireList("1", pods...))); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}

func TestEvents(t *testing.T) {
	pod := wirePod{Namespace: "a", Name: "b", UID: "c", Node: "n", Version: 9, Phase: "Running"}
	var stream bytes.Buffer
	for _, e := range [][]byte{wireEvent("ADDED", pod.json()), wireEvent("MODIFIED", pod.json()), wireBookmark(12), wireEvent("DELETED", pod.json())} {
		stream.Write(e)
	}
	d := newEventDecoder(&stream)
	for i, want := range []struct {
		verb    verb
		version string
	}{{put, "9"}, {put, "9"}, {bookmark, "12"}, {remove, "9"}} {
		e, err := d.next()
		if err != nil || e.verb != want.verb || e.resourceVersion != want.version {
			t.Errorf("event %d: %+v, %v", i, e, err)
		}
		if e.verb != bookmark && (e.item.Name != "b" || e.item.node != "n") {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	if _, err := d.next(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

func TestEventsThatAreNone(t *testing.T) {
	pod := wirePod{Namespace: "a", Name: "b", UID: "c", Version: 1}
	for name, tt := range map[string]struct {
		line []byte
		want error
	}{
		"expired":            {wireEvent("ERROR", wireStatus(410, "Expired", "too old resource version", "")), errExpired},
		"another error":      {wireEvent("ERROR", wireStatus(500, "InternalError", "etcd\x1b", "")), ErrUnavailable},
		"an error of no one": {wireEvent("ERROR", []byte(`{}`)), ErrUnavailable},
		"an unknown type":    {wireEvent("SYNCED", pod.json()), ErrMalformed},
		"no type":            {[]byte("{}\n"), ErrMalformed},
		"no object":          {[]byte(`{"type":"ADDED"}`), ErrMalformed},
		"another kind":       {wireEvent("ADDED", []byte(`{"kind":"Node","apiVersion":"v1"}`)), ErrMalformed},
		"no version":         {wireEvent("ADDED", bytes.Replace(pod.json(), []byte(`"resourceVersion":"1"`), []byte(`"x":1`), 1)), ErrMalformed},
		"a bare bookmark":    {wireEvent("BOOKMARK", []byte(`{}`)), ErrMalformed},
		"no JSON":            {[]byte("ADDED pod b\n"), ErrMalformed},
		"cut":                {wireEvent("ADDED", pod.json())[:40], io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := newEventDecoder(bytes.NewReader(tt.line)).next()
			if !errors.Is(err, tt.want) || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("%+v, %v", e, err)
			}
		})
	}
	endless := &repeat{text: `{"a":1},`}
	if _, err := newEventDecoder(io.MultiReader(strings.NewReader(`{"object":[`), endless)).next(); !errors.Is(err, ErrMalformed) || endless.taken > 4*maxObject {
		t.Errorf("after %d bytes: %v", endless.taken, err)
	}
}

// A watch may be long; only its events have a limit.
func TestLongWatch(t *testing.T) {
	line := wireEvent("MODIFIED", bulkyNamed(1))
	d := newEventDecoder(&repeat{text: string(line)})
	for range maxObject/len(line) + 100 {
		if _, err := d.next(); err != nil {
			t.Fatal(err)
		}
	}
}

func bulkyNamed(i int) []byte {
	return append([]byte(`{"kind":"Pod","apiVersion":"v1",`), bulkyPod(i)[1:]...)
}

func FuzzList(f *testing.F) {
	f.Add(wireList("5", []byte(fullPod)))
	f.Add(wireList("5", wirePod{Namespace: "a", Name: "b", UID: "c", Hash: "h"}.json()))
	f.Add([]byte(`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		pods, _, err := readList(bytes.NewReader(b))
		if err != nil {
			return
		}
		// What is taken for a list is one for a decoder that takes it as a whole.
		var whole struct {
			Kind  string
			Items []object
		}
		if err := json.Unmarshal(b, &whole); err != nil || whole.Kind != "PodList" || len(whole.Items) != len(pods) {
			t.Fatalf("%d pods, but: %v, %+v", len(pods), err, whole)
		}
		for _, p := range pods {
			if !validName(p.UID) || !validName(p.Name) || !validName(p.Namespace) {
				t.Errorf("%+v", p)
			}
			for _, ref := range p.Images {
				if ref == "" || len(ref) > maxReference {
					t.Errorf("image %q", ref)
				}
			}
		}
	})
}

func FuzzEvents(f *testing.F) {
	pod := wirePod{Namespace: "a", Name: "b", UID: "c", Version: 1, Images: []string{"x"}}
	f.Add(append(wireEvent("ADDED", pod.json()), wireBookmark(3)...))
	f.Add(wireEvent("ERROR", wireStatus(410, "Expired", "old", "")))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := newEventDecoder(bytes.NewReader(b))
		for range len(b) + 1 {
			e, err := d.next()
			if err != nil {
				return
			}
			if !validName(e.resourceVersion) || e.verb != bookmark && !validName(e.item.UID) {
				t.Fatalf("%+v", e)
			}
		}
		t.Fatal("more events than bytes")
	})
}

func FuzzMetrics(f *testing.F) {
	f.Add([]byte("# HELP kubelet_desired_pods x\nkubelet_desired_pods{static=\"\"} 0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := findMetric(bytes.NewReader(b), desiredPods)
		want := bytes.HasPrefix(b, []byte(desiredPods)) || bytes.Contains(b, []byte("\n"+desiredPods))
		// A last line without an end was cut off, one that is too long is none.
		if err != nil || got && !want {
			t.Errorf("%v, %v", got, err)
		}
	})
}

func TestFindMetric(t *testing.T) {
	long := strings.Repeat("x", 10000)
	for _, tt := range []struct {
		text string
		want bool
	}{
		{"", false},
		{"# HELP kubelet_desired_pods [ALPHA]\n# TYPE kubelet_desired_pods gauge\n", false},
		{"# TYPE\nkubelet_desired_pods{static=\"\"} 0\nkubelet_x 1\n", true},
		{"kubelet_desired_pods{static=\"\"} 0\n", true},
		{"kubelet_desired_pods{static=\"\"} 0", false},
		{long + "kubelet_desired_pods{static=\"\"} 0\n", false},
		{long + "\nkubelet_desired_pods{static=\"\"} 0\n" + long, true},
		// The rest of a long line is not another one, wherever the buffer ends.
		{strings.Repeat("x", 4096) + "kubelet_desired_pods{static=\"\"} 0\n", false},
	} {
		if got, err := findMetric(strings.NewReader(tt.text), desiredPods); got != tt.want || err != nil {
			t.Errorf("%.40q: %v, %v", tt.text, got, err)
		}
	}
	if _, err := findMetric(&repeat{text: "x"}, desiredPods); !errors.Is(err, ErrMalformed) {
		t.Errorf("without end: %v", err)
	}
}

// BenchmarkList decodes the list of a node with 500 pods of 20 KiB.
func BenchmarkList(b *testing.B) {
	pods := make([][]byte, 500)
	for i := range pods {
		pods[i] = bulkyPod(i)
	}
	body := wireList("1", pods...)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if got, _, err := readList(bytes.NewReader(body)); err != nil || len(got) != len(pods) {
			b.Fatal(len(got), err)
		}
	}
}
