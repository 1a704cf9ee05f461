package container

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
)

// absurd replaces what a world has by what no node ever had.
func (t *tape) absurd(s *Snapshot) {
	odd := func() time.Time {
		if t.below(4) == 0 {
			return time.Unix(t.number(), t.number())
		}
		return anyTime(t)
	}
	switch t.below(8) {
	case 6:
		s.Policy.MinAge, s.Policy.StartGrace = time.Duration(t.number()), time.Duration(t.number())
	case 7:
		s.Policy.MaxPerPodContainer, s.Policy.MaxContainers = int(t.number()), int(t.number())
		s.Policy.AgeFrom = AgeFrom(t.below(4))
	}
	for i := range s.Containers {
		c := &s.Containers[i]
		c.Created, c.Finished, c.RetryAt = odd(), odd(), odd()
		if t.below(8) == 7 {
			c.State = State(t.below(256))
		}
	}
	for i := range s.Sandboxes {
		s.Sandboxes[i].Created, s.Sandboxes[i].RetryAt = odd(), odd()
	}
}

func seeds(f *testing.F) {
	f.Add([]byte(nil))
	for seed := range byte(12) { // long enough to fill a world
		data := make([]byte, 700)
		for i := range data {
			data[i] = byte(i*int(2*seed+3)) ^ byte(i>>3)*seed
		}
		f.Add(data)
	}
}

func FuzzDecide(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		in := tape(data)
		s := anyWorld(&in)
		nonsense(&in, &s)
		in.absurd(&s)
		now := noon
		if in.below(4) == 3 {
			now = time.Unix(in.number(), in.number())
		}
		plan := Decide(s, now)
		if err := sane(s, plan, now); err != nil {
			t.Fatalf("%v\n%+v", err, s)
		}
		if err := different("-first time +second", plan, Decide(s, now)); err != nil {
			t.Fatal(err)
		}
	})
}

// The fuzzer looks for a world in which Decide and the kubelet differ.
func FuzzAgainstKubelet(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		in := tape(data)
		s := kubeletWorld(&in)
		if diff := compareWithKubelet(s); diff != "" {
			t.Fatalf("-kubelet +Decide:\n%s\n%+v", diff, s)
		}
	})
}

func FuzzIdentify(f *testing.F) {
	f.Add("1b0c8a54-51a4-4f4e-8f5f-0d6a6f1c2d3e", "kube-system", "etcd-node1", "etcd")
	f.Add("", "default", "a", "b")
	f.Add("..", "a/b", "a\nb", strings.Repeat("x", maxName+1))
	f.Fuzz(func(t *testing.T, uid, namespace, name, container string) {
		pod, got := Identify(map[string]string{
			labelPodUID: uid, labelPodNamespace: namespace, labelPodName: name, labelContainerName: container,
		})
		if (pod == PodID{}) {
			if got != "" {
				t.Fatalf("container %q of no pod", got)
			}
			return
		}
		if (pod != PodID{uid, namespace, name}) || got != "" && got != container {
			t.Fatalf("labels %q %q %q %q are read as %+v %q", uid, namespace, name, container, pod, got)
		}
		for _, word := range []string{pod.UID, pod.Namespace, pod.Name, got + "x"} {
			bad := func(r rune) bool { return r == '/' || r > unicode.MaxASCII || !unicode.IsPrint(r) || r == ' ' }
			if strings.IndexFunc(word, bad) >= 0 || word == "" || word == "." || word == ".." || len(word) > maxName+1 {
				t.Fatalf("%q is let through", word)
			}
		}
		if strings.Count(fmt.Sprint(pod), "/") != 1 {
			t.Fatalf("%v", pod)
		}
	})
}
