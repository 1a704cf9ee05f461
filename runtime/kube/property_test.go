package kube

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawPod makes a pod out of few names, so that they meet.
func drawPod(t *rapid.T) wirePod {
	p := wirePod{
		Namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"),
		Name:      rapid.SampledFrom([]string{"p", "q", "r"}).Draw(t, "name"),
		UID:       fmt.Sprint("u", rapid.IntRange(1, 4).Draw(t, "uid")),
		Node:      rapid.SampledFrom([]string{"node-1", "node-1", "node-1", "node-2"}).Draw(t, "node"),
		Phase:     rapid.SampledFrom([]string{"Pending", "Running", "Failed", "Succeeded"}).Draw(t, "phase"),
		Reason:    rapid.SampledFrom([]string{"", "Evicted"}).Draw(t, "reason"),
		Deleting:  rapid.Bool().Draw(t, "deleting"),
		Images:    rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 3).Draw(t, "images"),
	}
	if rapid.IntRange(0, 3).Draw(t, "mirror") == 0 {
		p.Hash = "hash-" + p.UID
	}
	if len(p.Images) == 0 {
		p.Images = nil
	}
	return p
}

// Any sequence of events, also repeated, out of place and about other nodes,
// and of lists, leaves the pods that a naive model has; and only changes
// are reported as changes.
func TestStoreLikeModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := store{node: "node-1"}
		s.replace(map[podName]Pod{})
		model := make(map[podName]Pod)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			before := fmt.Sprint(model)
			var changed bool
			if rapid.IntRange(0, 9).Draw(t, "step") == 0 {
				model = make(map[podName]Pod)
				list := make(map[podName]Pod)
				for _, w := range rapid.SliceOfN(rapid.Custom(drawPod), 0, 5).Draw(t, "list") {
					list[podName{w.Namespace, w.Name}] = w.pod()
					model[podName{w.Namespace, w.Name}] = w.pod()
				}
				changed = s.replace(list)
			} else {
				w := drawPod(t)
				e := event{verb: rapid.SampledFrom([]verb{put, put, remove, bookmark}).Draw(t, "verb"),
					item: item{Pod: w.pod(), node: w.Node}}
				switch name := (podName{w.Namespace, w.Name}); {
				case e.verb == put && w.Node == "node-1":
					model[name] = w.pod()
				case e.verb != bookmark:
					delete(model, name)
				}
				var err error
				if changed, err = s.apply(e); err != nil {
					t.Fatal(err)
				}
			}
			if differs := before != fmt.Sprint(model); differs != changed {
				t.Fatalf("changed %v, but %s became %v", changed, before, model)
			}
			list := []Pod{}
			for _, p := range model {
				list = append(list, p)
			}
			got, err := s.reading()
			if diff := cmp.Diff(inOrder(list), got.List); err != nil || diff != "" {
				t.Fatal(err, diff)
			}
		}
	})
}

// The same through the wire: whatever happens to the pods, to the connection
// and to the server's memory, the source comes to know what is there, and never
// shows a set that never was.
func TestWatchLikeModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFakeAPI()
		s := newServer(t, f.handle)
		defer s.Close()
		refuse := 0
		f.hook = func(w http.ResponseWriter, _ *http.Request) bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			if refuse == 0 {
				return false
			}
			refuse--
			answerJSON(w, 503, nil)
			return true
		}
		t.Run("", func(t *testing.T) {
			a := s.apiServer(t)
			changed := run(t, a)
			for range rapid.IntRange(1, 12).Draw(rt, "steps") {
				switch rapid.IntRange(0, 12).Draw(rt, "step") {
				case 0:
					s.CloseClientConnections()
				case 1:
					f.forget()
				case 2:
					f.mu.Lock()
					refuse = rapid.IntRange(1, 3).Draw(rt, "refuse")
					f.mu.Unlock()
					s.CloseClientConnections()
				case 3, 4, 5:
					w := drawPod(rt)
					f.remove(w.Namespace, w.Name)
				default:
					w := drawPod(rt)
					// A binding is for ever: a pod of that name elsewhere is another.
					if old, ok := f.pods[podName{w.Namespace, w.Name}]; ok && old.Node != w.Node {
						f.remove(w.Namespace, w.Name)
					}
					f.put(w)
				}
			}
			want := f.model()
			eventually(t, a, changed, fmt.Sprintf("want %+v", want), func(p Pods, err error) bool {
				return err == nil && cmp.Equal(want, p.List)
			})
		})
	})
}
