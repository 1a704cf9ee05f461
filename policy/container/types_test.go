package container

import (
	"strings"
	"testing"
	"time"
)

func TestRestsOn(t *testing.T) {
	step := func(a Action, container, sandbox string) Step {
		return Step{a, Decision{ContainerID: container, SandboxID: sandbox}}
	}
	stop, remove := step(StopContainer, "a", "s"), step(RemoveContainer, "a", "s")
	stopSandbox, removeSandbox := step(StopSandbox, "", "s"), step(RemoveSandbox, "", "s")
	for _, test := range []struct {
		later, earlier Step
		want           bool
	}{
		{remove, stop, true},
		{step(RemoveContainer, "b", "s"), stop, false},
		{step(RemoveContainer, "b", "s"), remove, false},
		{stopSandbox, remove, true},
		{removeSandbox, stop, true},
		{removeSandbox, stopSandbox, true},
		{step(RemoveSandbox, "", "t"), remove, false},
		{step(RemoveSandbox, "", "t"), removeSandbox, false},
		{step(RemoveContainer, "b", "t"), remove, false},
	} {
		if got := test.later.RestsOn(test.earlier); got != test.want {
			t.Errorf("%v rests on %v: %v", test.later, test.earlier, got)
		}
	}
}

func TestActionNames(t *testing.T) {
	var names []string
	for a := range RemoveSandbox + 2 {
		names = append(names, a.String())
	}
	want := "no action, stop container, remove container, stop sandbox, remove sandbox, no action"
	if got := strings.Join(names, ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestValidate(t *testing.T) {
	for _, p := range []Policy{{}, DefaultPolicy(), {MaxPerPodContainer: -9, MaxContainers: -9, MinAge: 1, StartGrace: 1, AgeFrom: FromTermination}} {
		if problems := p.Validate(); problems != nil {
			t.Errorf("%+v: %v", p, problems)
		}
	}
	wrong := Policy{MinAge: -time.Second, StartGrace: -time.Minute, AgeFrom: 7}
	want := "MinAge must not be negative: -1s; StartGrace must not be negative: -1m0s; AgeFrom must be 0 or 1, not 7"
	if got := joinProblems(wrong.Validate()); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	// The reasons mention it, because people look there.
	s := oneDead()
	s.Policy = wrong
	for _, d := range Decide(s, noon).Keep {
		if d.Detail != "policy: "+want {
			t.Errorf("detail %q", d.Detail)
		}
	}
}

func TestDefaultPolicyIsTheKubelets(t *testing.T) {
	if got, want := DefaultPolicy(), (Policy{0, 1, -1, FromCreation, 0}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
