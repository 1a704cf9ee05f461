package kubelet

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Threshold is a threshold of the eviction manager, which acts when less than this is available. At
// most one of Percent and Quantity is not zero, and that one counts. If both are zero, there is no
// threshold.
type Threshold struct {
	Percent  float64
	Quantity float64 // bytes or inodes
}

// Off reports whether the kubelet ignores the threshold, as it does with 0% and 100%.
func (t Threshold) Off() bool { return t == Threshold{} }

// Available is the threshold in bytes or inodes on a filesystem of this capacity.
func (t Threshold) Available(capacity uint64) float64 {
	return max(t.Quantity, t.Percent*float64(capacity)/100) // one of them is zero
}

// UsedPercent is the threshold as used percent. It is below zero for a quantity
// larger than the filesystem.
func (t Threshold) UsedPercent(capacity uint64) float64 {
	if t.Quantity == 0 {
		return 100 - t.Percent // exact: it is compared
	}
	if capacity == 0 {
		return 100
	}
	return 100 - 100*t.Available(capacity)/float64(capacity)
}

// quantities matches the quantities that are worth parsing. A Quantity is exact at any size, so an
// exponent of ten digits could take gigabytes.
var quantities = regexp.MustCompile(`^[+-]?[0-9.]{1,24}([eE][+-]?[0-9]{1,2}|[A-Za-z]{0,2})$`)

// ParseThreshold reads "15%", "10Gi" or "500000" as the kubelet does
// (parseThresholdStatement in pkg/kubelet/eviction/helpers.go).
func ParseThreshold(text string) (Threshold, error) {
	if text == "0%" || text == "100%" {
		return Threshold{}, nil
	}
	if strings.HasSuffix(text, "%") {
		p, err := strconv.ParseFloat(strings.TrimRight(text, "%"), 32)
		if err != nil || !(p >= 0 && p <= 100) { // nor is NaN
			return Threshold{}, fmt.Errorf("%.60q is not between 0%% and 100%%", text)
		}
		return Threshold{Percent: p}, nil
	}
	if !quantities.MatchString(text) {
		return Threshold{}, fmt.Errorf("%.60q is neither a percentage nor a quantity", text)
	}
	q, err := resource.ParseQuantity(text)
	if err == nil && q.Sign() <= 0 {
		err = errors.New("not positive")
	}
	if err != nil {
		return Threshold{}, fmt.Errorf("%.60q: %w", text, err)
	}
	return Threshold{Quantity: q.AsApproximateFloat64()}, nil
}
