package e2e

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"testing"

	"github.com/ebb-agent/ebb/tools/await"
)

// Who restarts a controller that was paused, or that its circuit breaker has stopped, does not
// mean that it should go on; whoever leads next does not, either.
func testHaltKept(t *testing.T, b *fixture, binary string) {
	for _, mode := range []string{elected, alone} {
		p := b.launch(t, binary, mode)
		p.awaitReady("ok\n")
		if text, err := p.ask(t.Context(), http.MethodPost, "/control/pause"); err != nil || text != "paused; nothing is on its way\n" {
			t.Fatalf("%q, %v", text, err)
		}
		p.kill()
		s := b.mixed(t, 10)
		s.begin()
		p = b.launch(t, binary, mode)
		p.awaitReady("ok (paused by hand)")
		p.resume()
		s.ended(10)
		p.kill()
		p = b.launch(t, binary, mode+"circuitBreaker: {deletions: 15, window: 10m}\n")
		p.awaitReady("ok\n")
		s = b.mixed(t, 30)
		s.begin()
		p.awaitReady("ok (circuit breaker open")
		await.Holds(t, patience, "the circuit breaker to be kept", func(ctx context.Context) error {
			var lease struct {
				Metadata struct{ Annotations map[string]string }
			}
			err := b.Ask(ctx, http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/ebb-system/leases/ebb-controller", nil, &lease)
			if err == nil && lease.Metadata.Annotations["ebb-agent.github.io/halted"] != "breaker-open" {
				err = fmt.Errorf("%v", lease.Metadata.Annotations)
			}
			return err
		})
		all := s.atRest("secret")
		if all == 0 {
			t.Fatal("none is left")
		}
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		p.exit()
		p = b.launch(t, binary, mode)
		p.awaitReady("ok (circuit breaker open")
		if again, _, err := s.left(t.Context(), "secret"); again != all || err != nil {
			t.Errorf("%d left before the restart, %d after it, %v", all, again, err)
		}
		p.resume()
		s.ended(30)
		p.kill()
		p = b.launch(t, binary, mode)
		p.awaitReady("ok\n")
		p.kill()
	}
}

func (p *program) resume() {
	p.t.Helper()
	if text, err := p.ask(p.t.Context(), http.MethodPost, "/control/resume"); err != nil || text != "resumed\n" {
		p.t.Fatalf("%q, %v", text, err)
	}
}
