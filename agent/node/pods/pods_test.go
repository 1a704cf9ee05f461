package pods

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/monitor"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/kube"
)

func TestStoredName(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for from, want := range map[string]string{
		"busybox": "docker.io/library/busybox:latest", "busybox:1": "docker.io/library/busybox:1",
		"quay.io/a/b@" + digest: "quay.io/a/b@" + digest, "a:1@" + digest: "docker.io/library/a@" + digest,
		digest: digest, "": "", "UPPER/../x": "UPPER/../x",
	} {
		if got := storedName(from); got != want {
			t.Errorf("%q is %q, want %q", from, got, want)
		}
	}
}

// overtaken answers its questions when a test lets it, each with other pods.
type overtaken struct{ answers []chan kube.Pods }

func (o *overtaken) Run(context.Context, chan<- struct{}) error { return nil }
func (o *overtaken) Pass() kube.Pass                            { return nil }
func (o *overtaken) Pods(context.Context) (kube.Pods, error) {
	answer := make(chan kube.Pods)
	o.answers = append(o.answers, answer)
	return <-answer, nil
}

// An answer that another one has overtaken changes nothing, whatever age the other claims.
func TestOvertakenAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, m := &overtaken{}, monitor.New()
		p := New(prometheus.NewRegistry(), Options{
			Source: source, Now: time.Now, Outside: m.Outside, Conditions: condition.NewSet(slog.New(slog.DiscardHandler)),
			Back: func() {}, Changed: func() {},
		})
		for range 2 {
			go m.Do(func() { _, _ = p.Read(t.Context()) })
			synctest.Wait()
		}
		source.answers[1] <- kube.Pods{List: []kube.Pod{{Name: "new", Images: []string{"a"}}}, Heard: time.Now().Add(-time.Hour)}
		synctest.Wait()
		source.answers[0] <- kube.Pods{}
		synctest.Wait()
		m.Do(func() {
			if by := p.Want(inventory.Image{References: []string{storedName("a")}}); len(by) != 1 {
				t.Errorf("wanted by %q", by)
			}
		})
	})
}

// hangs answers nobody, until it does.
type hangs struct {
	asked int
	over  bool
}

func (h *hangs) Run(context.Context, chan<- struct{}) error { return nil }
func (h *hangs) Pass() kube.Pass                            { return nil }
func (h *hangs) Pods(ctx context.Context) (kube.Pods, error) {
	h.asked++
	if h.over {
		return kube.Pods{}, nil
	}
	<-ctx.Done()
	return kube.Pods{}, ctx.Err()
}

// A source that hangs costs its time once in five seconds, not with each question.
func TestHangingSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, m := &hangs{}, monitor.New()
		p := New(prometheus.NewRegistry(), Options{
			Source: source, Now: time.Now, Outside: m.Outside, Conditions: condition.NewSet(slog.New(slog.DiscardHandler)),
			Back: func() {}, Changed: func() {},
		})
		read := func() (err error) {
			m.Do(func() { _, err = p.Read(t.Context()) })
			return err
		}
		began := time.Now()
		for range 100 {
			if read() == nil {
				t.Fatal("an answer")
			}
		}
		if took := time.Since(began); took != timeout || source.asked != 1 {
			t.Errorf("a hundred questions took %v, the source was asked %d times", took, source.asked)
		}
		time.Sleep(AskFirst)
		source.over = true
		if err := read(); err != nil || source.asked != 2 {
			t.Errorf("after that: %v, asked %d times", err, source.asked)
		}
		for range 3 {
			if err := read(); err != nil {
				t.Error(err)
			}
		}
		if source.asked != 5 {
			t.Errorf("a source that answers was asked %d times", source.asked)
		}
		// Whoever asks may give up themselves: that shows nothing about the source.
		source.over = false
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m.Do(func() { _, _ = p.Read(ctx) })
		source.over = true
		if err := read(); err != nil {
			t.Error(err)
		}
	})
}
