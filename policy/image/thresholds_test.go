package image

import (
	"errors"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestUsedPercent(t *testing.T) {
	for _, test := range []struct {
		capacity, available uint64
		want                int
	}{
		{0, 0, 0}, {0, 7, 0}, // no capacity is not known
		{100, 100, 0}, {100, 101, 0}, // more available than there is
		{100, 20, 80}, {100, 0, 100},
		{1000, 209, 80}, {1000, 201, 80}, {1000, 200, 80}, {1000, 199, 81},
		{3, 1, 67}, {3, 2, 34},
		{math.MaxUint64, math.MaxUint64 / 2, 51},
		{math.MaxUint64, 1, 100},
		{16 << 60 >> 1, 4 << 60 >> 1, 75}, // exabytes: the product needs more than 64 bits
	} {
		d := Disk{CapacityBytes: test.capacity, AvailableBytes: test.available}
		if got := d.UsedPercent(); got != test.want {
			t.Errorf("%d of %d available: %d %% used, want %d %%", test.available, test.capacity, got, test.want)
		}
		d = Disk{Inodes: test.capacity, InodesAvailable: test.available}
		if got := d.InodesUsedPercent(); got != test.want {
			t.Errorf("%d of %d inodes available: %d %% used, want %d %%", test.available, test.capacity, got, test.want)
		}
	}
}

func TestRaiseAt(t *testing.T) {
	for _, test := range []struct {
		capacity uint64
		high     int
		want     uint64
		ok       bool
	}{
		{100, 80, 20, true}, // 21 available is 79 % used
		{1000, 80, 209, true},
		{1000, 1, 999, true},
		{1000, 99, 19, true},
		{1, 50, 0, true},
		{1000, 100, 0, false},
		{1000, 0, 0, false},
		{1000, -1, 0, false},
		{1000, 101, 0, false},
		{0, 80, 0, false},
		{math.MaxUint64, 1, math.MaxUint64 - 1, true},
	} {
		got, ok := RaiseAt(test.capacity, test.high)
		if got != test.want || ok != test.ok {
			t.Errorf("RaiseAt(%d, %d) = %d, %v, want %d, %v", test.capacity, test.high, got, ok, test.want, test.ok)
		}
	}
}

func TestLowAvailable(t *testing.T) {
	for _, test := range []struct {
		capacity uint64
		low      int
		want     uint64
	}{
		{1000, 75, 250},
		{1001, 75, 251}, // rounded up: 250 of 1001 would be 76 %
		{1000, 0, 1000},
		{1000, 100, 0},
		{1000, -5, 1000},
		{1000, 200, 0},
		{0, 75, 0},
		{math.MaxUint64, 0, math.MaxUint64},
	} {
		if got := LowAvailable(test.capacity, test.low); got != test.want {
			t.Errorf("LowAvailable(%d, %d) = %d, want %d", test.capacity, test.low, got, test.want)
		}
	}
}

// anySize draws sizes from bytes to exabytes alike.
func anySize() *rapid.Generator[uint64] {
	return rapid.Custom(func(t *rapid.T) uint64 {
		bitsWide := rapid.IntRange(1, 64).Draw(t, "bits")
		return rapid.Uint64().Draw(t, "value") >> (64 - bitsWide)
	})
}

// The kubelet's own formula, in numbers of any size.
func kubeletUsedPercent(capacity, available uint64) int {
	q := new(big.Int).Mul(new(big.Int).SetUint64(available), big.NewInt(100))
	q.Quo(q, new(big.Int).SetUint64(capacity))
	return 100 - int(q.Int64())
}

func TestThresholdsAgreeWithUsedPercent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := max(anySize().Draw(t, "capacity"), 1)
		available := min(anySize().Draw(t, "available"), capacity)
		high := rapid.IntRange(1, 99).Draw(t, "high")

		used := func(available uint64) int {
			return Disk{CapacityBytes: capacity, AvailableBytes: available}.UsedPercent()
		}
		if got, want := used(available), kubeletUsedPercent(capacity, available); got != want {
			t.Fatalf("%d of %d available: %d %% used, the kubelet computes %d %%", available, capacity, got, want)
		}
		raiseAt, ok := RaiseAt(capacity, high)
		if !ok {
			t.Fatalf("no threshold at %d %%", high)
		}
		if used(raiseAt) < high {
			t.Fatalf("at the threshold only %d %% are used", used(raiseAt))
		}
		if raiseAt < capacity && used(raiseAt+1) >= high {
			t.Fatalf("one above the threshold still %d %% are used", used(raiseAt+1))
		}
		low := rapid.IntRange(0, high-1).Draw(t, "low")
		lowAt := LowAvailable(capacity, low)
		if used(lowAt) > low {
			t.Fatalf("at the low threshold %d %% are used, want at most %d %%", used(lowAt), low)
		}
		if lowAt > 0 && used(lowAt-1) <= low {
			t.Fatalf("one below the low threshold %d %% are used already", used(lowAt-1))
		}
		// The kubelet frees down to ⌊capacity·(100−low)/100⌋: one byte apart at most.
		floor := new(big.Int).Mul(new(big.Int).SetUint64(capacity), big.NewInt(int64(100-low)))
		floor.Quo(floor, big.NewInt(100))
		if apart := lowAt - floor.Uint64(); apart > 1 {
			t.Fatalf("%d bytes from the kubelet's target", apart)
		}
	})
}

func TestValidate(t *testing.T) {
	good := Policy{HighPercent: 80, LowPercent: 75, MinimumAge: 2 * time.Minute}
	for _, test := range []struct {
		name   string
		change func(*Policy)
		want   []FieldError
	}{
		{"defaults", func(*Policy) {}, nil},
		{"inode thresholds", func(p *Policy) { p.InodesHighPercent, p.InodesLowPercent = 90, 85 }, nil},
		{"off", func(p *Policy) { p.HighPercent = 100 }, nil},
		{"ages", func(p *Policy) { p.MaximumAge = 12*time.Hour + 45*time.Minute }, nil},
		{"high 0", func(p *Policy) { p.HighPercent, p.LowPercent = 0, 0 }, []FieldError{
			{"HighPercent", "must be 1 to 100, not 0"},
			{"LowPercent", "must be below HighPercent: 0 is not below 0"},
		}},
		{"high 101", func(p *Policy) { p.HighPercent = 101 }, []FieldError{{"HighPercent", "must be 1 to 100, not 101"}}},
		{"low negative", func(p *Policy) { p.LowPercent = -1 }, []FieldError{{"LowPercent", "must be 0 to 99, not -1"}}},
		{"low equals high", func(p *Policy) { p.LowPercent = 80 }, []FieldError{{"LowPercent", "must be below HighPercent: 80 is not below 80"}}},
		{"inodes low without high", func(p *Policy) { p.InodesLowPercent = 5 }, []FieldError{
			{"InodesHighPercent", "must be 1 to 100, not 0"},
			{"InodesLowPercent", "must be below InodesHighPercent: 5 is not below 0"},
		}},
		{"maximum below minimum", func(p *Policy) { p.MaximumAge = time.Minute }, []FieldError{{"MaximumAge", "must not be below MinimumAge: 1m0s is below 2m0s"}}},
		{"everything", func(p *Policy) { *p = Policy{-1, 200, 300, -4, -time.Second, -time.Hour, 101} }, []FieldError{
			{"HighPercent", "must be 1 to 100, not -1"},
			{"LowPercent", "must be 0 to 99, not 200"},
			{"InodesHighPercent", "must be 1 to 100, not 300"},
			{"InodesLowPercent", "must be 0 to 99, not -4"},
			{"FutileShare", "must be 0 to 100, not 101"},
			{"MinimumAge", "must not be negative: -1s"},
			{"MaximumAge", "must not be negative: -1h0m0s"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := good
			test.change(&p)
			if diff := cmp.Diff(test.want, p.Validate()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestFieldErrorIsAnError(t *testing.T) {
	err := error(FieldError{"LowPercent", "must be 0 to 99, not 200"})
	var field FieldError
	if !errors.As(err, &field) || err.Error() != "LowPercent must be 0 to 99, not 200" {
		t.Errorf("got %q", err)
	}
}

func TestSaturation(t *testing.T) {
	if got := satAdd(math.MaxUint64, 1); got != math.MaxUint64 {
		t.Errorf("add wrapped to %d", got)
	}
	if got := satSub(1, 2); got != 0 {
		t.Errorf("sub wrapped to %d", got)
	}
	if got := satAdd(2, 3); got != 5 {
		t.Errorf("2 + 3 = %d", got)
	}
}
