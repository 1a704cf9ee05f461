package image

import (
	"fmt"
	"math"
	"math/bits"
)

// UsedPercent is the used space as the kubelet counts it. A disk without
// capacity is not known, and counts as empty.
func (d Disk) UsedPercent() int {
	return usedPercent(d.CapacityBytes, d.AvailableBytes)
}

// InodesUsedPercent is the same for inodes.
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

// RaiseAt is the largest number of available bytes (or inodes) at which the high
// threshold is reached: the one that the kernel programs get. It is false where there is
// none: at 100 percent, outside 1..100, and without capacity.
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

// LowAvailable is the smallest number of available bytes (or inodes) at which
// used space is at or below the low threshold.
func LowAvailable(capacity uint64, lowPercent int) uint64 {
	return percentUp(capacity, 100-min(max(lowPercent, 0), 100))
}

// shortfall is what has to become available to reach the low threshold: nothing
// while the high threshold is not reached, unless a run is already on.
func shortfall(capacity, available uint64, high, low int, reclaiming bool) uint64 {
	raiseAt, ok := RaiseAt(capacity, high)
	if !ok || available > raiseAt && !reclaiming {
		return 0
	}
	return satSub(LowAvailable(capacity, low), available)
}

// percentUp is ⌈n·percent/100⌉ for a percent of 0 to 100.
func percentUp(n uint64, percent int) uint64 {
	quotient, remainder := mulDiv(n, uint64(percent), 100)
	if remainder > 0 {
		quotient++
	}
	return quotient
}

// shareOf is ⌊n·percent/100⌋ for a percent of 0 to 100.
func shareOf(n uint64, percent int) uint64 {
	quotient, _ := mulDiv(n, uint64(percent), 100)
	return quotient
}

// mulDiv divides a·b by c without losing the upper half of the product: an
// exabyte times 100 does not fit in 64 bits. The quotient must.
func mulDiv(a, b, c uint64) (quotient, remainder uint64) {
	hi, lo := bits.Mul64(a, b)
	return bits.Div64(hi, lo, c)
}

// add saturates: an untrue figure must not wrap into a small one.
func satAdd(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return sum
}

// sub is a − b, and 0 where that would be negative.
func satSub(a, b uint64) uint64 {
	if a < b {
		return 0
	}
	return a - b
}

// FieldError is one thing wrong with a field of a Policy. The configuration
// knows the name people wrote; Field is the name in Go.
type FieldError struct {
	Field   string
	Problem string // "must be 1 to 100, not 0"
}

func (e FieldError) Error() string { return e.Field + " " + e.Problem }

// Validate returns everything that is wrong with the policy; nil if nothing is.
// Decide removes nothing by a policy that does not validate.
func (p Policy) Validate() []FieldError {
	var problems []FieldError
	wrong := func(field, format string, args ...any) {
		problems = append(problems, FieldError{field, fmt.Sprintf(format, args...)})
	}
	thresholds := func(prefix string, high, low int) {
		if high < 1 || high > 100 {
			wrong(prefix+"HighPercent", "must be 1 to 100, not %d", high)
		}
		// An empty band would be crossed with nothing to free, as with the kubelet.
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

// HighReached says whether one of the high thresholds is reached: whether Decide
// would start to reclaim.
func (p Policy) HighReached(d Disk) bool {
	bytesAt, bytes := RaiseAt(d.CapacityBytes, p.HighPercent)
	inodesAt, inodes := RaiseAt(d.Inodes, p.InodesHighPercent)
	return bytes && d.AvailableBytes <= bytesAt || inodes && d.InodesAvailable <= inodesAt
}
