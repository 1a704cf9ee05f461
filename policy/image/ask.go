package image

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// Asked is the result of Ask.
type Asked struct {
	// Plan covers the need that was passed to Ask. If the need cannot be met, it has a Hold.
	// That Hold is only for its Space; do not pass it to Decide.
	Plan

	Frees Size // all of Remove together
	May   int  // how many images may be removed at all
	Most  Size // what all images that may be removed free together: the largest need that can be met
}

var ofTheRequest = wording{
	reached:    "what was asked for is reached without it",
	notReached: "removing all unused images would not reach what was asked for",
	futile:     "what was asked for cannot be reached, and it would free ",
}

// Ask returns which images to remove to make need available, beyond what is available now. It
// is Decide with another need: the same protections, the same order and, if the need cannot
// be met, the same FutileShare.
//
// Thresholds do not matter, and a hold keeps nothing. Images of the maximum age are merely
// the first in the order: Ask removes no more than the need requires.
func Ask(s Snapshot, need Size, now time.Time) Asked {
	s.Hold = nil
	d := newDecision(s, now)
	d.asked, d.wording = true, &ofTheRequest
	d.need = weight{bytes: need.Bytes, inodes: need.Inodes}
	answer := Asked{Plan: d.decide()}
	answer.May, answer.Most = len(d.order), sum(d.frees).size()
	answer.Frees = answer.Plan.Frees()
	return answer
}

// Frees returns what all removals of the plan free together.
func (p Plan) Frees() (all Size) {
	for _, d := range p.Remove {
		all = all.Add(Size{d.FreesBytes, d.FreesInodes})
	}
	return all
}

// Available returns what is available to unprivileged writers.
func (d Disk) Available() Size { return Size{d.AvailableBytes, d.InodesAvailable} }

// BytesTo returns how many bytes must become available so that at most percent is used, as
// the kubelet counts it; 0 if that is already so.
func (d Disk) BytesTo(percent int) uint64 {
	return satSub(LowAvailable(d.CapacityBytes, percent), d.AvailableBytes)
}

// InodesTo is BytesTo for inodes.
func (d Disk) InodesTo(percent int) uint64 {
	return satSub(LowAvailable(d.Inodes, percent), d.InodesAvailable)
}

// Digest identifies the images that the plan removes, their order and their reasons. It does
// not cover what each removal frees, or what is kept.
func (p Plan) Digest() string {
	h := sha256.New()
	word := func(s string) {
		h.Write(binary.AppendUvarint(nil, uint64(len(s)))) // the length keeps different lists different
		h.Write([]byte(s))
	}
	for _, r := range p.Remove {
		word(r.ImageID)
		word(string(r.Reason))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
