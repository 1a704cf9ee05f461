package chart

import (
	"cmp"
	"math"
	"slices"
)

// spread moves heights apart, keeping their order: neighbours are then at least gap apart, and all
// lie between low and high. If there is not enough room, it uses the largest gap that fits.
func spread(heights []float64, gap, low, high float64) []float64 {
	n := len(heights)
	if n == 0 {
		return nil
	}
	if n > 1 {
		gap = math.Min(gap, (high-low)/float64(n-1))
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(heights[a], heights[b]) })
	moved := make([]float64, n)
	// First raise each value until it keeps the gap to the one before. Then lower values, from the
	// last one, until all are at most high.
	for rank, i := range order {
		moved[i] = math.Max(heights[i], low)
		if rank > 0 {
			moved[i] = math.Max(moved[i], moved[order[rank-1]]+gap)
		}
	}
	limit := high
	for _, i := range slices.Backward(order) {
		moved[i] = math.Min(moved[i], limit)
		limit = moved[i] - gap
	}
	return moved
}
