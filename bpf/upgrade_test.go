package bpf

import (
	"fmt"
	"testing"

	"github.com/ebb-agent/ebb/tools/dice"
)

// TestNoUseIsMissedByAnUpgrade replaces the programs by others of another
// layout, over and over, while processes run in one container after the other.
// Each container runs once in a round, so that no later use hides one that was
// missed; half are tracked, half not known yet. In each round the uses begin with
// another step of the upgrade, or before it.
func TestNoUseIsMissedByAnUpgrade(t *testing.T) {
	const rounds, containers = 24, 60
	bottom := busyboxLayer(t)
	all := make([]rootfs, containers)
	for i := range all {
		all[i] = overlay(t, t.TempDir()+"/top", bottom)
	}
	o := Options{PinDir: pinDir(t), MaxLayers: containers, NoWriters: true}
	p, err := Load(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	chance := dice.New(t)
	uses, missed, steps := 0, 0, 0
	for round := range rounds {
		for i, r := range all {
			if i%2 == 0 {
				track(t, p, r.key)
			}
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })

		begin, ended := make(chan struct{}), make(chan struct{})
		used := make(chan map[Key]uint64, 1)
		go func() {
			<-begin
			used <- useEach(t, all, ended)
		}()
		o.MaxLayers = containers + uint32(round+1) // another layout
		at, step := round%(steps+1)-1, 0
		if at < 0 {
			close(begin)
		}
		o.step = func(string) error {
			if step == at {
				close(begin)
			}
			step++
			return nil
		}
		if p, err = Load(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		close(ended)
		steps = step
		for key, from := range <-used {
			uses++
			track(t, p, key)
			if last := lastUse(t, p, key); last < from || last > now(t) {
				missed++
				t.Errorf("round %d: last use is %d, but there was one after %d", round, last, from)
			}
		}
		if p.Lost() {
			t.Errorf("round %d: stamps were lost", round)
		}
		for _, r := range all {
			if err := p.Untrack(r.key); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d of %d uses were missed in %d upgrades of %d steps", missed, uses, rounds, steps)
	if uses < rounds*5 {
		t.Errorf("only %d uses in %d upgrades", uses, rounds)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// useEach runs a process in each container until ended reports the end of the upgrade,
// and returns when it began each.
func useEach(t *testing.T, all []rootfs, ended <-chan struct{}) map[Key]uint64 {
	began := map[Key]uint64{}
	for _, r := range all {
		select {
		case <-ended:
			return began
		default:
		}
		from, err := BootTime()
		if err == nil {
			err = r.command("true").Run()
		}
		if err != nil {
			t.Error(fmt.Errorf("use a container: %w", err))
			return began
		}
		began[r.key] = from
	}
	return began
}
