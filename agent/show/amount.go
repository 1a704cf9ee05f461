package show

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// longestAmount bounds the length of an amount, in bytes.
const longestAmount = 32

// amount matches a quantity whose exponent has at most two digits. resource.Quantity compares
// 1e1000000000 by writing out all its digits, which takes hours.
var amount = regexp.MustCompile(`^[+-]?[0-9]*\.?[0-9]*([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?$`)

var (
	errNone     = errors.New("want more than 0")
	errFraction = errors.New("want whole bytes or inodes")
	errMost     = errors.New("larger than any disk")
)

// ParseAmount reads a number of bytes or inodes as Kubernetes writes quantities: 20Gi, 500M, 1000.
func ParseAmount(s string) (uint64, error) {
	if len(s) > longestAmount || !amount.MatchString(s) {
		return 0, fmt.Errorf("%q: want a quantity such as 20Gi", Clean(s[:min(len(s), longestAmount)]))
	}
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return 0, fmt.Errorf("%q: want a quantity such as 20Gi", Clean(s))
	}
	switch {
	case q.Sign() <= 0:
		err = errNone
	case q.Cmp(*resource.NewQuantity(math.MaxInt64, resource.DecimalSI)) >= 0:
		err = errMost // ParseQuantity caps larger quantities at MaxInt64
	case q.Cmp(*resource.NewQuantity(q.Value(), resource.DecimalSI)) != 0:
		err = errFraction // Value rounds up
	}
	if err != nil {
		return 0, fmt.Errorf("%q: %w", Clean(s), err)
	}
	return uint64(q.Value()), nil
}

// ParsePercent reads 0 to 100, with or without a percent sign.
func ParsePercent(s string) (int, error) {
	n, err := strconv.ParseUint(strings.TrimSuffix(s, "%"), 10, 8)
	if err != nil || n > 100 {
		return 0, fmt.Errorf("%q: want 0 to 100, for example 60%%", Clean(s[:min(len(s), longestAmount)]))
	}
	return int(n), nil
}
