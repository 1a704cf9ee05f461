package image

import (
	"fmt"
	"math"
	"math/bits"
)

// UsedPercent returns the used space in percent, as the kubelet counts it. A disk without
// capacity is unknown and counts as empty.
func (d Disk) UsedPercent() int {
	return usedPercent(d.CapacityBytes, d.AvailableBytes)
}

// InodesUsedPercent is UsedPercent for inodes.
func (d Disk) InodesUsedPercent() int {
	return usedPercent(d.Inodes, d.InodesAvailable)
}

func usedPercent(capacity, available uint64) int {
	if capacity == 0 || available >= capacity {
		return 0
	}
	quotient, _ := mulDiv(available, 100, capacity)
	return 100 - int(quotient)
}

// RaiseAt returns the largest number of available bytes (or inodes) at which the high
// threshold is reached. The eBPF programs get this number. ok is false if there is none: at
// 100 percent, outside 1..100, and without capacity.
//
// 100 − ⌊available·100/capacity⌋ ≥ high holds as long as available·100 is below
// (101 − high)·capacity: the kubelet's rounding puts the threshold almost a percent
// higher than its name.
func RaiseAt(capacity uint64, highPercent int) (available uint64, ok bool) {
	if capacity == 0 || highPercent < 1 || highPercent >= 100 {
		return 0, false
	}
	return percentUp(capacity, 101-highPercent) - 1, true
}

// LowAvailable returns the smallest number of available bytes (or inodes) at which used space
// is at or below the low threshold.
func LowAvailable(capacity uint64, lowPercent int) uint64 {
	return percentUp(capacity, 100-min(max(lowPercent, 0), 100))
}

// shortfall returns what must become available to reach the low threshold: 0 while the high
// threshold is not reached, unless a run is in progress.
func shortfall(capacity, available uint64, high, low int, reclaiming bool) uint64 {
	raiseAt, ok := RaiseAt(capacity, high)
	if !ok || available > raiseAt && !reclaiming {
		return 0
	}
	return satSub(LowAvailable(capacity, low), available)
}

// percentUp returns ⌈n·percent/100⌉ for a percent of 0 to 100.
func percentUp(n uint64, percent int) uint64 {
	quotient, remainder := mulDiv(n, uint64(percent), 100)
	if remainder > 0 {
		quotient++
	}
	return quotient
}

// shareOf returns ⌊n·percent/100⌋ for a percent of 0 to 100.
func shareOf(n uint64, percent int) uint64 {
	quotient, _ := mulDiv(n, uint64(percent), 100)
	return quotient
}

// mulDiv divides a·b by c without losing the upper half of the product: an exabyte times 100
// does not fit in 64 bits. The quotient must fit.
func mulDiv(a, b, c uint64) (quotient, remainder uint64) {
	hi, lo := bits.Mul64(a, b)
	return bits.Div64(hi, lo, c)
}

// satAdd returns a + b, saturated: a wrong figure must not wrap into a small one.
func satAdd(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return sum
}

// satSub returns a − b, or 0 if that would be negative.
func satSub(a, b uint64) uint64 {
	if a < b {
		return 0
	}
	return a - b
}

// FieldError is one thing wrong with a field of a Policy. Field is its name in Go; the
// configuration knows the name that the operator wrote.
type FieldError struct {
	Field   string
	Problem string // "must be 1 to 100, not 0"
}

func (e FieldError) Error() string { return e.Field + " " + e.Problem }

// Validate returns everything that is wrong with the policy; nil if nothing is. With an
// invalid policy, Decide removes nothing.
func (p Policy) Validate() []FieldError {
	var problems []FieldError
	wrong := func(field, format string, args ...any) {
		problems = append(problems, FieldError{field, fmt.Sprintf(format, args...)})
	}
	thresholds := func(prefix string, high, low int) {
		if high < 1 || high > 100 {
			wrong(prefix+"HighPercent", "must be 1 to 100, not %d", high)
		}
		// An empty band would start a run with nothing to free. The kubelet rejects it, too.
		if low < 0 || low >= 100 {
			wrong(prefix+"LowPercent", "must be 0 to 99, not %d", low)
		} else if low >= high {
			wrong(prefix+"LowPercent", "must be below %sHighPercent: %d is not below %d", prefix, low, high)
		}
	}
	thresholds("", p.HighPercent, p.LowPercent)
	if p.InodesHighPercent != 0 || p.InodesLowPercent != 0 {
		thresholds("Inodes", p.InodesHighPercent, p.InodesLowPercent)
	}
	if p.FutileShare < 0 || p.FutileShare > 100 {
		wrong("FutileShare", "must be 0 to 100, not %d", p.FutileShare)
	}
	if p.MinimumAge < 0 {
		wrong("MinimumAge", "must not be negative: %v", p.MinimumAge)
	}
	if p.MaximumAge < 0 {
		wrong("MaximumAge", "must not be negative: %v", p.MaximumAge)
	}
	if p.MaximumAge > 0 && p.MaximumAge < p.MinimumAge {
		wrong("MaximumAge", "must not be below MinimumAge: %v is below %v", p.MaximumAge, p.MinimumAge)
	}
	return problems
}

// HighReached reports whether a high threshold is reached, at which Decide starts to reclaim.
func (p Policy) HighReached(d Disk) bool {
	bytes, inodes := p.Reached(d)
	return bytes || inodes
}

// Reached reports which high thresholds are reached.
func (p Policy) Reached(d Disk) (bytes, inodes bool) {
	bytesAt, bytes := RaiseAt(d.CapacityBytes, p.HighPercent)
	inodesAt, inodes := RaiseAt(d.Inodes, p.InodesHighPercent)
	return bytes && d.AvailableBytes <= bytesAt, inodes && d.InodesAvailable <= inodesAt
}
