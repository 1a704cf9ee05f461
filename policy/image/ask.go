package image

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// Asked is the answer to somebody who wants space.
type Asked struct {
	// Plan has Ask's need as what is needed, and a Hold if it cannot be met: for Hold.Space,
	// not to be handed back to Decide.
	Plan

	Frees Size // all of Remove together
	May   int  // how many images may go at all
	Most  Size // what all images that may go would free together: more cannot be asked for
}

var ofTheRequest = wording{
	reached:    "what was asked for is reached without it",
	notReached: "removing all unused images would not reach what was asked for",
	futile:     "what was asked for cannot be reached, and it would free ",
}

// Ask says which images would go to make need available, beyond what is available now.
// It is Decide with another need: the same protections, the same order, the same share
// that is futile where the need cannot be met. Thresholds do not matter, a hold does not
// keep anything, and images of the maximum age are merely the first in the order: no more
// goes than was asked for.
func Ask(s Snapshot, need Size, now time.Time) Asked {
	s.Hold = nil
	d := newDecision(s, now)
	d.asked, d.says = true, &ofTheRequest
	d.need = weight{bytes: need.Bytes, inodes: need.Inodes}
	answer := Asked{Plan: d.decide()}
	answer.May, answer.Most = len(d.order), sum(d.frees).size()
	answer.Frees = answer.Plan.Frees()
	return answer
}

// Frees is what all that the plan removes frees together.
func (p Plan) Frees() (all Size) {
	for _, d := range p.Remove {
		all = all.Add(Size{d.FreesBytes, d.FreesInodes})
	}
	return all
}

// Available is what a disk has left for unprivileged writers.
func (d Disk) Available() Size { return Size{d.AvailableBytes, d.InodesAvailable} }

// BytesTo is what has to become available for at most percent to be used, as the kubelet
// counts it; 0 if that is so already.
func (d Disk) BytesTo(percent int) uint64 {
	return satSub(LowAvailable(d.CapacityBytes, percent), d.AvailableBytes)
}

// InodesTo is the same for inodes.
func (d Disk) InodesTo(percent int) uint64 {
	return satSub(LowAvailable(d.Inodes, percent), d.InodesAvailable)
}

// Digest tells plans apart by which images go, in which order and why. What each frees is
// not in it, nor what stays.
func (p Plan) Digest() string {
	h := sha256.New()
	word := func(s string) {
		h.Write(binary.AppendUvarint(nil, uint64(len(s)))) // no two lists run together to the same
		h.Write([]byte(s))
	}
	for _, r := range p.Remove {
		word(r.ImageID)
		word(string(r.Reason))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
