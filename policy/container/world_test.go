package container

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// dice make choices. The same worlds are made from rapid's (which shrink), from
// a seed (which is fast) and from a fuzzer's bytes.
type dice interface {
	below(n int) int // 0..n-1
}

type rapidDice struct{ *rapid.T }

func (d rapidDice) below(n int) int { return rapid.IntRange(0, n-1).Draw(d.T, "choice") }

type seedDice struct{ *rand.Rand }

func seeded(seed uint64) dice { return seedDice{rand.New(rand.NewPCG(seed, 1))} }

func (d seedDice) below(n int) int { return d.IntN(n) }

// tape makes choices from bytes; at its end it always chooses the first.
type tape []byte

func (t *tape) below(n int) int {
	if len(*t) == 0 {
		return 0
	}
	b := (*t)[0]
	*t = (*t)[1:]
	return int(b) % n
}

// number is any 64-bit number.
func (t *tape) number() int64 {
	var raw [8]byte
	*t = (*t)[copy(raw[:], *t):]
	return int64(binary.LittleEndian.Uint64(raw[:]))
}

func pick[T any](d dice, list ...T) T { return list[d.below(len(list))] }

// oneIn is true once in n choices, and never for the first one: shrinking
// makes a world ordinary.
func oneIn(d dice, n int) bool { return d.below(n) == n-1 }

// pastTime is a time before noon or at it. Few values, so that ties are common.
func pastTime(d dice) time.Time {
	return noon.Add(-time.Duration(pick(d, 0, 1, 2, 3, 5, 8, 10, 60, 240)) * time.Minute)
}

// anyTime may also be in the future, or not known.
func anyTime(d dice) time.Time {
	switch d.below(12) {
	case 10:
		return time.Time{}
	case 11:
		return noon.Add(time.Duration(pick(d, 1, 4, 300)) * time.Minute)
	}
	return pastTime(d)
}

func podOf(uid string) PodID { return PodID{UID: uid, Namespace: "default", Name: uid} }

// kubeletWorld is a world that the kubelet knows: everything carries its
// labels, and all times are past.
func kubeletWorld(d dice) Snapshot {
	s := Snapshot{PodsKnown: !oneIn(d, 6), StaticPodsKnown: true, ReclaimEnded: oneIn(d, 3)}
	s.Policy = Policy{
		MinAge:             time.Duration(pick(d, 0, 0, 2, 5)) * time.Minute,
		MaxPerPodContainer: pick(d, 1, 1, 0, 2, 3, -1),
		MaxContainers:      pick(d, -1, -1, 0, 1, 2, 3, 5),
	}
	uids := []string{"p0", "p1", "p2", "p3"}[:1+d.below(4)]
	for i := range d.below(6) {
		s.Sandboxes = append(s.Sandboxes, Sandbox{
			ID: fmt.Sprint("s", i), Pod: podOf(pick(d, uids...)), Attempt: uint32(d.below(3)),
			NotReady: d.below(3) > 0, Created: pastTime(d),
		})
	}
	for i := range d.below(10) {
		s.Containers = append(s.Containers, Container{
			ID: fmt.Sprint("c", i), SandboxID: fmt.Sprint("s", d.below(7)), // s6 is never listed
			Pod: podOf(pick(d, uids...)), Name: pick(d, "app", "app", "log"), Attempt: uint32(d.below(3)),
			State:   pick(d, StateExited, StateExited, StateExited, StateExited, StateRunning, StateCreated, StateUnknown),
			Created: pastTime(d), Finished: pastTime(d),
		})
	}
	for _, uid := range uids {
		if d.below(3) < 2 {
			s.Pods = append(s.Pods, Pod{UID: uid, Deleting: oneIn(d, 3), Ended: oneIn(d, 3), Evicted: oneIn(d, 6)})
		}
	}
	return s
}

// anyWorld adds all that the kubelet does not know, or would not have.
func anyWorld(d dice) Snapshot {
	s := kubeletWorld(d)
	s.StaticPodsKnown = !oneIn(d, 3)
	s.Policy.AgeFrom = pick(d, FromCreation, FromTermination)
	s.Policy.StartGrace = time.Duration(pick(d, 0, 0, 1, 5)) * time.Minute
	for i := range s.Containers {
		c := &s.Containers[i]
		c.Created, c.Finished = anyTime(d), anyTime(d)
		switch d.below(20) {
		case 16:
			c.RetryAt = anyTime(d)
		case 17:
			c.Pod, c.Name = PodID{}, ""
		case 18:
			c.Name = "../etc"
		case 19:
			c.Pod.Namespace = ""
		}
	}
	for i := range s.Sandboxes {
		sb := &s.Sandboxes[i]
		sb.Created, sb.Static = anyTime(d), oneIn(d, 4)
		switch d.below(12) {
		case 10:
			sb.RetryAt = anyTime(d)
		case 11:
			sb.Pod = PodID{}
		}
	}
	if oneIn(d, 6) && len(s.Pods) > 0 { // named twice
		s.Pods = append(s.Pods, Pod{UID: s.Pods[0].UID, Deleting: oneIn(d, 2), Ended: oneIn(d, 2), Evicted: oneIn(d, 2)})
	}
	return s
}

// nonsense spoils a world in one of the ways in which an adapter could.
func nonsense(d dice, s *Snapshot) {
	switch d.below(16) {
	case 10:
		s.Policy.MinAge = -1
	case 11:
		if len(s.Containers) > 0 {
			s.Containers[0].State = pick(d, 0, StateUnknown+1, 255)
		}
	case 12:
		if len(s.Containers) > 0 {
			twin := s.Containers[0]
			twin.State, twin.SandboxID = StateRunning, fmt.Sprint("s", d.below(7))
			s.Containers = append(s.Containers, twin)
		}
	case 13:
		if len(s.Sandboxes) > 0 {
			twin := s.Sandboxes[0]
			twin.NotReady = !twin.NotReady
			s.Sandboxes = append(s.Sandboxes, twin)
		}
	case 14:
		if len(s.Containers) > 0 {
			s.Containers[0].ID = ""
		}
	case 15:
		if len(s.Sandboxes) > 0 {
			s.Sandboxes[0].ID = ""
		}
	}
}

// removed are the IDs that a plan removes.
func removed(p Plan) map[string]bool {
	gone := make(map[string]bool)
	for _, step := range p.Steps {
		switch step.Action {
		case RemoveContainer:
			gone[step.ContainerID] = true
		case RemoveSandbox:
			gone[step.SandboxID] = true
		}
	}
	return gone
}

// afterwards is the world once all steps of the plan have succeeded.
func afterwards(s Snapshot, p Plan) Snapshot {
	for _, step := range p.Steps {
		carryOut(&s, step.ContainerID, step.SandboxID, step.Action)
	}
	return s
}
