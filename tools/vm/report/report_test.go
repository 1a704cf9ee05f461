package report

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

var order = Order{Suites: []Suite{{Name: "a"}, {Name: "b"}}}

// send writes lines as a guest does.
func send(t *testing.T, lines ...Line) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	for _, l := range lines {
		if err := Write(&out, l); err != nil {
			t.Fatal(err)
		}
	}
	return &out
}

func TestVerdict(t *testing.T) {
	begin := func(name string) Line { return Line{Begin: name} }
	pass := func(name string) Line { return Line{Result: &Result{Name: name, Passed: 3}} }
	for name, tt := range map[string]struct {
		lines []Line
		is    error
		want  string
	}{
		"passed":         {[]Line{begin("a"), pass("a"), begin("b"), pass("b"), {End: true}}, nil, ""},
		"silent":         {nil, ErrNoVerdict, "before the first suite"},
		"died in a":      {[]Line{begin("a")}, ErrNoVerdict, "in a"},
		"died between":   {[]Line{begin("a"), pass("a")}, ErrNoVerdict, "after a"},
		"no end":         {[]Line{begin("a"), pass("a"), begin("b"), pass("b")}, ErrNoVerdict, "after b"},
		"one left out":   {[]Line{begin("a"), pass("a"), {End: true}}, ErrNoVerdict, "1 suites ended, 2"},
		"another suite":  {[]Line{pass("a"), pass("c"), {End: true}}, ErrNoVerdict, "c ended where b"},
		"nothing ran":    {[]Line{pass("a"), {Result: &Result{Name: "b"}}, {End: true}}, ErrFailed, "b: no test ran"},
		"exit status":    {[]Line{pass("a"), {Result: &Result{Name: "b", Exit: 2, Passed: 1}}, {End: true}}, ErrFailed, "b: exit status 2"},
		"failed by name": {[]Line{{Result: &Result{Name: "a", Exit: 1, FailedTests: []string{"TestX"}}}, pass("b"), {End: true}}, ErrFailed, "TestX"},
		"timed out":      {[]Line{{Result: &Result{Name: "a", Exit: -1, Reason: "no end within 1m"}}, pass("b"), {End: true}}, ErrFailed, "no end within 1m"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Read(send(t, tt.lines...))
			if err != nil {
				t.Fatal(err)
			}
			if err = r.Verdict(order); !errors.Is(err, tt.is) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("verdict is %v, want %v with %q", err, tt.is, tt.want)
			}
		})
	}
}

// TestVerdictOnPrograms: they are judged if no tests are.
func TestVerdictOnPrograms(t *testing.T) {
	good, bad := Program{Name: "good", Working: true}, Program{Name: "bad", AttachPoint: "at", Reason: "oh"}
	for name, tt := range map[string]struct {
		programs []Program
		suites   []Result
		want     string
	}{
		"all":    {[]Program{good}, nil, ""},
		"not":    {[]Program{good, bad}, nil, "program bad (at): oh"},
		"none":   {nil, nil, "no kernel program was tried"},
		"suites": {[]Program{bad}, []Result{{Name: "a", Passed: 1}}, ""},
	} {
		var o Order
		for _, s := range tt.suites {
			o.Suites = append(o.Suites, Suite{Name: s.Name})
		}
		err := Report{Programs: tt.programs, Suites: tt.suites, Ended: true}.Verdict(o)
		if (err == nil) != (tt.want == "") || err != nil && (!errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: error is %v, want %q", name, err, tt.want)
		}
	}
}

func TestReadKeepsWhatWasSent(t *testing.T) {
	kernel := Kernel{Release: "6.1", Version: "#1", Modules: []string{"xfs"}}
	programs := []Program{{Object: "o", Name: "p", AttachPoint: "t", Reason: "not there"}}
	result := Result{Name: "a", Seconds: 1.5, Passed: 2, Skipped: []string{"TestS"}}
	got, err := Read(send(t, Line{Kernel: &kernel}, Line{Programs: programs}, Line{Begin: "a"}, Line{Result: &result}, Line{End: true}))
	want := Report{Kernel: kernel, Programs: programs, Suites: []Result{result}, Ended: true}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

// TestCutAnywhere: wherever a machine dies, its report can be read, and is never
// taken for a pass before its last byte.
func TestCutAnywhere(t *testing.T) {
	whole := send(t, Line{Begin: "a"}, Line{Result: &Result{Name: "a", Passed: 1}},
		Line{Result: &Result{Name: "b", Passed: 1}}, Line{End: true}).Bytes()
	for n := range whole {
		r, err := Read(bytes.NewReader(whole[:n]))
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if err := r.Verdict(order); !errors.Is(err, ErrNoVerdict) {
			t.Errorf("cut at %d: verdict is %v", n, err)
		}
	}
}

func TestReadRefusesWhatIsNoReport(t *testing.T) {
	for name, text := range map[string]string{
		"words":    "Kernel panic - not syncing\n",
		"too long": strings.Repeat("x", maxLine+1),
	} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"Begin":"a"}` + "\n" + `{"End":true}` + "\n"))
	f.Add([]byte(`{"Result":{"Name":"a","Exit":1}}` + "\n{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Read(bytes.NewReader(text))
		if err == nil && r.Verdict(order) == nil && !(r.Ended && len(r.Suites) == 2) {
			t.Errorf("a pass without two suites: %+v", r)
		}
	})
}
